"""What every case stands on: a Spark session, the edges, a main loop, and a way to tell figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from benchmarks import answers
from benchmarks.evolving.own_files import FileStream
from benchmarks.evolving.sizes import Sizes
from benchmarks.evolving.stream import Batch, EdgeStream, Source
from benchmarks.programs import PROGRAMS
from vertexsdk import Budget, Changes, Graph, MainLoop, Result, session

Tell = Callable[..., None]


class Context:
    """One case's own; ``note`` tells a figure to the parent, where it joins a list of its name."""

    def __init__(
        self,
        sizes: Sizes,
        cache: Path,
        scratch: Path,
        note: Tell,
        conf: dict[str, str] | None = None,
    ) -> None:
        self.sizes, self.scratch, self.note = sizes, scratch, note
        self.stream = stream_of(sizes, cache, scratch)
        self.spark = session(f"local[{sizes.cores}]", "vertexsdk-benchmark", **(conf or {}))
        self.backend = f"lmdb://{scratch}/state"
        self._until = float("inf")

    def start_clock(self) -> None:
        """From here on the case has `Sizes.seconds`."""
        self._until = time.perf_counter() + self.sizes.seconds

    @property
    def late(self) -> bool:
        """Whether nothing more is to be begun."""
        return time.perf_counter() > self._until

    def main(self, program: str, budget: Budget | None) -> MainLoop:
        """A main loop over the edges as drawn; after each batch it approximates within ``budget``,
        not at all if that is None."""
        every: dict[str, dict[str, Any]] = {
            "shortest_paths": {"origin": self.stream.origin},
            "pagerank": {"epsilon": answers.EPSILON},
        }
        params = every.get(program)
        graph = Graph.read(self.spark, edges=self.stream.parquet, partitions=1)
        return MainLoop(
            PROGRAMS[program][0], graph, params=params, backend=self.backend, budget=budget,
            replace=True,
        )  # fmt: skip

    def check(self, program: str, result: Result, at: Source | None = None) -> None:
        """Raises `answers.Wrong` unless the answer is that for the edges of the stream now, or of
        a copy of it made before."""
        answers.check(program, at or self.stream, result.columns())
        self.note("checked", 1)

    def state_bytes(self) -> int:
        """What the store takes on disk."""
        files = (self.scratch / "state").rglob("*")
        return sum(f.stat().st_blocks * 512 for f in files if f.is_file())

    def heap_bytes(self) -> int:
        """What the last collections of the JVM's heap left in it."""
        jvm: Any = self.spark.sparkContext._jvm
        pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        usages = [p.getCollectionUsage() for p in pools if p.getType().name() == "HEAP"]
        return sum(usage.getUsed() for usage in usages if usage is not None)


def stream_of(sizes: Sizes, cache: Path, scratch: Path) -> Source:
    """The graph and changes that the sizes name, from their beginning."""
    if sizes.edges_file:
        changes = [Path(name) for name in sizes.changes_files]
        return FileStream(Path(sizes.edges_file), changes, scratch)
    return EdgeStream(sizes.scale, cache)


def pieces(batch: Batch, most: int) -> list[Changes]:
    """Cut into as few batches of at most so many as will do, all alike."""
    number = max(1, -(-len(batch) // most))
    cuts = [len(batch) * k // number for k in range(number + 1)]
    return [changes_of(batch[a:b]) for a, b in pairwise(cuts)]


def changes_of(batch: Batch) -> Changes:
    """The batch as the loop takes it; ids as Arrow arrays, which costs nothing."""
    source, target = pa.array(batch.source), pa.array(batch.target)
    return Changes.from_arrays(batch.kind, source, target, batch.value)
