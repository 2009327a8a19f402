"""Several programs on one graph: each answer is that of a run from scratch, of the same instant."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.support.window_model import Window
from vertexsdk import Graph, InputError, MainLoop, MainLoops, ProgramError, Sum, Vertex, state
from vertexsdk.engine.loop_engine import LoopEngine
from vertexsdk.testing.oracles import disagreements, expected

PARAMS = {"sssp": {"origin": 0}, "pagerank": {"epsilon": 1e-13}}
NAMES = ["wcc", "sssp", "pagerank"]


class WholeValues(Vertex):
    """Reads int values."""

    total: int = state(0)
    messages = Sum(int)
    edge = int

    def gather(self, iteration, source, delta):
        self.total = delta.value

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, target.value)


class Events(Vertex):
    """Takes deltas."""

    total: int = state(0)

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)

    def scatter(self, iteration):
        pass


class History:
    """Loops and the edges that they must have."""

    def __init__(self, rng: np.random.Generator, url: str, spark: Any) -> None:
        self.rng, self.spark, self.undirected = rng, spark, bool(rng.integers(2))
        self.names = [NAMES[k] for k in rng.permutation(3)]
        self.strings, length = bool(rng.integers(2)), float(rng.choice([6.0, math.inf]))
        self.params = {**PARAMS, "sssp": {"origin": self.id(0)}}
        self.options: Any = {
            "params": self.params, "loop": "main", "backend": url, "compiled": False,
            "snapshot_every": int(rng.choice([6, 1000])),
        }  # fmt: skip
        partitions = int(rng.integers(1, 4))
        print(self.names, self.undirected, partitions, self.strings, length, self.options)
        graph = Graph.from_arrays(
            [self.id(0)], [self.id(1)], [2.0], spark=spark, undirected=self.undirected,
            partitions=partitions,
        )  # fmt: skip
        self.window = Window(length, self.undirected, edges={(self.id(0), self.id(1)): 2.0})
        self.loops = MainLoops(self.names, graph, **self.options)
        if math.isfinite(length):
            self.loops.window(length)
        self.abandoned: list[MainLoops] = []

    def id(self, number: int) -> Any:
        return f"v{number}" if self.strings else number

    def ingest(self) -> None:
        changes, times, now = [], [], max(self.window.clock, 0.0)
        windowed = math.isfinite(self.window.length)
        for _ in range(int(self.rng.integers(1, 8))):
            a, b, x = (int(n) for n in self.rng.integers(0, 5, 3))
            kind = str(self.rng.choice(["+", "-", "~"], p=[0.6, 0.3, 0.1]))
            changes.append((kind, self.id(a), self.id(b), float(x)))
            now += float(self.rng.integers(3)) if windowed else 0.0
            times.append(now - float(self.rng.integers(3)) if windowed else 0.0)
        self.window.take((*change, time) for change, time in zip(changes, times, strict=True))
        self.loops.ingest(changes, time=times if windowed else None)

    def check(self) -> None:
        rows = [(a, b, x) for (a, b), x in sorted(self.window.edges.items())]
        with ExitStack() as stack:
            answers = self.loops.query()
            assert [*answers] == self.names
            for name, answer in answers.items():
                stack.enter_context(answer)
                params = self.params.get(name, {})
                origin = [self.id(0)] if name == "sssp" else []
                wanted = expected(name, rows, origin, params, undirected=self.undirected)
                columns = answer.columns()
                got = {
                    v: {f: columns[f].tolist()[k] for f in wanted}
                    for k, v in enumerate(columns["id"].tolist())
                }
                assert not disagreements(wanted, got, 1e-9), name
                assert answer.statistics["behind"] == 0

    def resume(self) -> None:
        if self.rng.integers(2):
            self.loops.close()
        else:  # as a process that is killed
            for name in self.names:
                self.loops._loops[name]._history.settle()
            self.abandoned.append(self.loops)
        self.loops = MainLoops.resume(self.spark, self.names, **self.options)

    def fail(self) -> None:
        """One of the followers fails where it takes changes in."""
        name = str(self.rng.choice([n for n in self.names if n != "sssp"]))
        with pytest.MonkeyPatch.context() as patch:
            engine = self.loops._loops[name]._history.engine
            execute = LoopEngine.execute

            def fails(self: LoopEngine, command: Any) -> Any:
                if self is engine:
                    raise RuntimeError("no memory")
                return execute(self, command)

            patch.setattr(LoopEngine, "execute", fails)
            self.ingest()

    def merge(self) -> None:
        """A branch of the loop with the log adds an edge."""
        with self.loops["sssp"].fork() as branch:
            branch.apply([("+", self.id(0), self.id(4), 3.0)])
            branch.result(timeout=60).close()
            branch.merge()
            branch.close(forget=True)
        self.window.apply([("+", self.id(0), self.id(4), 3.0)])


def run_history(rng: np.random.Generator, url: str, spark: Any, steps: int) -> None:
    history = History(rng, url, spark)
    kinds = ["ingest", "check", "resume", "fail", "merge"]
    try:
        for step in rng.choice(kinds, steps, p=[0.5, 0.25, 0.1, 0.1, 0.05]):
            getattr(history, step)()
        history.check()
    finally:
        for loops in (*history.abandoned, history.loops):
            loops.close()


def test_random_histories(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    seed = request.config.getoption("--seed")
    print(f"--seed {seed}")
    rng = np.random.default_rng(seed)
    for k in range(3):
        url = f"memory://main-loops-{k}" if k else f"lmdb://{tmp_path}/store"
        run_history(rng, url, None, 15)


def test_a_random_history_on_processors(
    request: pytest.FixtureRequest, spark: SparkSession
) -> None:
    seed = request.config.getoption("--seed")
    print(f"--seed {seed}")
    run_history(np.random.default_rng(seed), "memory://main-loops-spark", spark, 6)


def open_loops(url: str, programs: Any = ("wcc", "degree"), **options: Any) -> MainLoops:
    return MainLoops(programs, Graph.empty(), backend=url, compiled=False, **options)


def test_a_window_and_a_stream(tmp_path: Path) -> None:
    file = tmp_path / "changes.txt"
    file.write_text("0 + 1 2\n5 + 2 3\n9 + 4 5\n")
    with open_loops("memory://main-loops-window").window(7) as loops:
        with loops.start(file, follow=False, time_column=1) as stream:
            stream.awaitTermination(60)
        assert {n: a.to_dict() for n, a in loops.query().items()} == {
            "wcc": {2: 2, 3: 2, 4: 4, 5: 4}, "degree": {2: 1, 3: 1, 4: 1, 5: 1},
        }  # fmt: skip
        assert (loops.counts["expired"], loops.event_time) == (1, 9)
        progress = loops.progress()
        assert [progress[name]["edges"] for name in loops] == [2, 2]
        assert [progress[name]["changes"] for name in loops] == [3, 3]


def test_a_program_that_comes_later() -> None:
    url = "memory://main-loops-later"
    with open_loops(url, loop="main") as loops:
        loops.ingest([("+", 1, 2), ("+", 2, 3)])
        for answer in loops.query().values():
            answer.close()
    with MainLoops.resume(None, ["wcc", "bfs"], loop="main", backend=url,
                          params={"bfs": {"origin": 1}}) as loops:  # fmt: skip
        loops.ingest([("+", 3, 4)])
        with loops.query()["bfs"] as answer:
            assert answer.to_dict() == {1: 0, 2: 1, 3: 2, 4: 3}


def test_the_log_is_stored_once(tmp_path: Path) -> None:
    with open_loops(f"lmdb://{tmp_path}/store") as loops:
        for k in range(5):
            loops.ingest([("+", k, k + 1)])
        for answer in loops.query().values():
            answer.close()
        histories = [loop._history for loop in loops.values()]
        keys = [
            {r.key for r in h.store.segments(h.manifest) if r.kind == "changes"} for h in histories
        ]
        assert keys[0] == keys[1]
        assert len(keys[0]) == 5
        assert histories[0].store.verify() == []


def test_mistakes() -> None:
    with pytest.raises(
        ProgramError, match=r"a list is not a program: MainLoops\(programs, graph\) runs"
    ):
        MainLoop(["wcc", "bfs"], Graph.empty())
    url = "memory://main-loops-mistakes"
    for programs, options, text in [
        ([], {}, "takes a list of programs"),
        ("wcc", {}, "takes a list of programs"),
        (["wcc", "wcc"], {}, "wcc is named twice"),
        (["wcc", Events], {}, "Events declares no messages"),
        (["sssp", WholeValues], {}, "sssp reads edges as float64, WholeValues as int64"),
        (["wcc", "bfs"], {"params": {"b": {}}}, "params name 'b'; give them by program: wcc, bfs"),
        (["wcc", "degree"], {"budget": 3}, "budget is only for a MainLoop of one program"),
    ]:
        with pytest.raises(InputError) as error:
            open_loops(url, programs, **options)
        assert text.lower() in str(error.value).lower()
    with open_loops(url) as loops:
        loops.ingest([("+", 1, 2)])
        with pytest.raises(InputError, match="follows another one: ingest into the MainLoops"):
            loops["degree"].ingest([("+", 1, 3)])
        with loops["degree"].fork() as branch:
            branch.apply([("+", 1, 3)])
            branch.result().close()
            with pytest.raises(InputError, match="follows another one"):
                branch.merge()
        with pytest.raises(KeyError):
            loops["pagerank"]
        with loops.query()["degree"] as answer:
            assert len(answer) == 2
