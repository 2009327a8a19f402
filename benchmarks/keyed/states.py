"""Throughput by the size of the state (figure 6 of the SDG paper) and by processors (figure 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.keyed.classes import KeyValue
from benchmarks.keyed.sizes import Sizes
from benchmarks.keyed.turns import in_turns, options
from vertexsdk import StatefulLoop, session

AIM = 10.0  # seconds between snapshots, of the target
KEYS_PER_MB = 40_000  # 25 bytes each: key, value, a mark, and the index
_SCATTER = 2654435761  # times the number of a key is the key
_SPARE_SLOTS = 2


class Writer:
    """Puts values of keys drawn at random; may be used by several loops.

    Args:
        megabytes: of state.
    """

    batch, batches = 1 << 18, 64  # so many keys at a time, again and again

    def __init__(self, megabytes: int) -> None:
        self.keys = np.arange(megabytes * KEYS_PER_MB) * _SCATTER
        rng = np.random.default_rng(1)
        size = min(self.batch, len(self.keys))
        self._places = [
            rng.integers(0, len(self.keys), size).astype(np.int32) for _ in range(self.batches)
        ]
        self._chosen = [self.keys[places] for places in self._places]

    def fill(self, flow: StatefulLoop) -> None:
        """Put 0 at every key."""
        flow.put.map(self.keys, np.zeros(len(self.keys)))

    def steps(self, flow: StatefulLoop) -> tuple[Callable[[], int], Callable[[], None]]:
        """Return what puts the next values of a loop, and what compares all that it has then.

        Raises:
            Wrong: by the second, values are not those that were put.
        """
        done = 0

        def step() -> int:
            nonlocal done
            keys = self._chosen[done % self.batches]
            done += 1
            flow.put.map(keys, np.full(len(keys), float(done)))
            return len(keys)

        def check() -> None:
            right = np.zeros(len(self.keys))
            for number in range(max(0, done - self.batches), done):
                right[self._places[number % self.batches]] = number + 1
            places = self._places[0]
            found = flow.get.map(self._chosen[0])
            if not np.array_equal(np.asarray(found, float), right[places]):
                raise Wrong("values that were got are not those that were put")

        return step, check


def states(process: CaseProcess, sizes: Sizes) -> None:
    """Put values in states of several sizes; the smallest with all intervals."""
    for megabytes in sizes.states:
        writer = Writer(megabytes)
        for every in sizes.intervals if megabytes == min(sizes.states) else (AIM,):

            def make(kind: str, megabytes: int = megabytes, every: float = every,
                     writer: Writer = writer) -> Any:  # fmt: skip
                url = f"lmdb://{process.scratch}/{megabytes}-{every:g}-{kind}"
                return _made(writer, url, options(kind, every))

            rounds = sizes.rounds if every == AIM else 1
            in_turns(process, sizes, f"{megabytes} MB", every, rounds, make)


def processors(process: CaseProcess, sizes: Sizes) -> None:
    """The same state for each of 1, 2, 4 resident Spark processors."""
    most = max(sizes.processors)
    spark = session(f"local[{len(sizes.kinds) * (most + 1) + _SPARE_SLOTS}]")
    every = min(sizes.intervals)
    for count in sizes.processors:
        writer = Writer(count * sizes.each)

        def make(kind: str, count: int = count, writer: Writer = writer) -> Any:
            url = f"lmdb://{process.scratch}/{count}-{kind}"
            return _made(writer, url, {**options(kind, every), "partitions": count, "spark": spark})

        in_turns(process, sizes, f"{count} × {sizes.each} MB", every, 2, make)


def _made(writer: Writer, url: str, told: dict[str, Any]) -> Any:
    flow = StatefulLoop(KeyValue, backend=url, **{"partitions": 1, **told})
    writer.fill(flow)
    return flow, *writer.steps(flow)
