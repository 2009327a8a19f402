"""How each system runs the programs: loads the graph once, then any of them on it."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.graphs import BenchGraph
from benchmarks.peers import Settings
from benchmarks.peers.graphframes import GraphFrames
from benchmarks.peers.graphx import GraphX
from benchmarks.peers.ours import Ours
from benchmarks.ported.catalogue import HERE, Ported

Later = Callable[[], tuple[Any, Any]]
_NUMBERS = r"^\((-?\d+),([-+.\w]+)\)$"


class Runner:
    """One system; `run` is timed, and what it gives hands over (ids, values) afterwards."""

    title: str

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def start(self) -> None:
        """Raises `Unavailable` when the system is not there."""
        raise NotImplementedError

    def load(self, graph: BenchGraph) -> None:
        """Load a graph and keep it in memory."""
        raise NotImplementedError

    def run(self, program: Ported) -> Later:
        """Run a program on the graph to its end."""
        raise NotImplementedError

    def forget(self) -> None:
        """Let go of what the last run left in memory; not timed."""

    def _given(self, program: Ported, graph: BenchGraph) -> tuple[int, ...]:
        return (graph.origin,) if program.origin else ()


class OurPrograms(Runner):
    title = "ours"

    def start(self) -> None:
        os.environ["VERTEXSDK_BACKEND"] = f"lmdb://{self.settings.scratch}/state"
        self.peer = Ours(self.settings)
        self.peer.start()

    def load(self, graph: BenchGraph) -> None:
        self.peer.graph = graph
        self.peer.release()
        self.peer.load_parquet()

    def run(self, program: Ported) -> Later:
        module = importlib.import_module(f"benchmarks.ported.{program.name}.ours")
        result = module.answer(self.peer.loaded, *self._given(program, self.peer.graph))

        def later() -> tuple[Any, Any]:
            columns = result.columns()
            return columns["id"], columns[result.statistics["result"]]

        return later


class _Graphs(GraphX):
    """GraphX with the programs of the folders in a jar."""

    def conf(self) -> dict[str, str]:
        from benchmarks.peers import _spark

        files = sorted(HERE.glob("*/graphx.scala"))
        return {"spark.jars": str(_spark.scala_jar(HERE / "load.scala", self.settings, *files))}


class GraphXPrograms(Runner):
    title = "GraphX"

    def start(self) -> None:
        self.peer = _Graphs(self.settings)
        self.peer.start()

    def load(self, graph: BenchGraph) -> None:
        self.peer.release()
        self.peer.graph = graph
        context = self.peer.spark.sparkContext._jsc
        cores = self.settings.cores
        self.peer.loaded = self.peer.jvm.ported.Load.text(context, graph.text, cores)

    def run(self, program: Ported) -> Later:
        scala = getattr(self.peer.jvm.ported, program.scala)
        found = scala.run(self.peer.loaded, *self._given(program, self.peer.graph))
        found.count()
        self.found, scratch = found, self.settings.scratch
        return lambda: self.peer._spark.pairs(found, scratch, _NUMBERS)

    def forget(self) -> None:
        self.found.unpersist(True)
        del self.found
        gc.collect()  # so that Spark's cleaner may find what the program has cached besides
        self.peer.jvm.System.gc()


class GraphFramesPrograms(Runner):
    title = "GraphFrames"

    def start(self) -> None:
        self.peer = GraphFrames(self.settings)
        self.peer.start()

    def load(self, graph: BenchGraph) -> None:
        self.peer.release()
        self.peer.graph = graph
        self.peer.load_parquet()

    def run(self, program: Ported) -> Later:
        module = importlib.import_module(f"benchmarks.ported.{program.name}.graphframes")
        given = self._given(program, self.peer.graph)
        found = module.answer(self.peer.loaded, *given).cache()
        found.count()
        self.found = found

        def later() -> tuple[Any, Any]:
            table = found.select("id", "value").toArrow()
            return table["id"].to_numpy(), table["value"].to_numpy().astype(np.float64)

        return later

    def forget(self) -> None:
        self.found.unpersist()


SYSTEMS: dict[str, type[Runner]] = {
    "ours": OurPrograms,
    "graphx": GraphXPrograms,
    "graphframes": GraphFramesPrograms,
}
"""By the name of its files in `catalogue`."""
