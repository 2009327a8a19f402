"""Main loops whose graph is edited in place: random histories in this process, without Spark."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support import seeds
from vertexsdk import INT_MAX, Graph, MainLoop, Min, run, state
from vertexsdk.algorithms import BreadthFirstSearch, ConnectedComponents, PageRank, ShortestPaths
from vertexsdk.engine import loop_task
from vertexsdk.program.vertex import Vertex
from vertexsdk.testing.oracles import near

Edges = dict[tuple[Any, Any], float]
PROGRAMS: list[tuple[type[Vertex], dict[str, Any]]] = [
    (ShortestPaths, {"origin": 0}),
    (BreadthFirstSearch, {"origin": 0}),
    (ConnectedComponents, {}),
    (PageRank, {"epsilon": 1e-10}),
]
ROUNDS = 8


class History:
    """A main loop and the edges that it must have."""

    def __init__(self, program: type[Vertex], params: dict[str, Any], url: str, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.strings, self.undirected = rng.random() < 0.5, rng.random() < 0.5
        self.program, self.url, self.partitions = program, url, rng.choice([1, 2, 7])
        self.compiled = rng.choice(["require", False])
        self.params = {n: self.id(x) if n == "origin" else x for n, x in params.items()}
        self.edges: Edges = {self.pair(30): float(rng.randint(1, 9)) for _ in range(60)}
        self.main = MainLoop(
            program, self.graph(), params=self.params, backend=url, loop="m", compiled=self.compiled
        )

    def id(self, number: int) -> Any:
        """A vertex id; strings do not order as the numbers that they are made from."""
        return f"n{number * 7919 % 1009}é" if self.strings else number

    def pair(self, n: int) -> tuple[Any, Any]:
        a, b = self.id(self.rng.randrange(n)), self.id(self.rng.randrange(n))
        return (b, a) if self.undirected and b < a else (a, b)

    def graph(self) -> Graph:
        ends = [[edge[k] for edge in self.edges] for k in (0, 1)]
        named = [self.params["origin"]] if "origin" in self.params else None
        values = list(self.edges.values())
        return Graph.from_arrays(
            *ends, values, undirected=self.undirected, vertices=named, partitions=self.partitions
        )

    def changes(self, count: int, n: int) -> list[Any]:
        batch: list[Any] = []
        for _ in range(count):
            a, b = self.pair(n)
            x = float(self.rng.randint(1, 9))
            if (a, b) in self.edges and self.rng.random() < 0.8:
                batch.append(("-", a, b))
                del self.edges[a, b]
            else:
                batch += [("+", a, b, x)] if (a, b) not in self.edges else [("~", a, b, x)]
                self.edges[a, b] = x
        return batch

    def check(self) -> str:
        with closing(self.main.query()) as answer:
            got, start = answer.to_dict(), answer.statistics["start"]
        graph = self.graph()
        with closing(run(self.program, graph, params=self.params, backend="memory://o")) as result:
            wanted = result.to_dict()
        graph.unpersist()
        assert got.keys() == wanted.keys()
        close = 1e-8 if self.program is PageRank else 0.0
        assert all(near(got[v], wanted[v], close) for v in wanted), (got, wanted)
        return str(start)

    def step(self, number: int) -> None:
        rng, main = self.rng, self.main
        main.ingest(self.changes(rng.randint(1, 7), 30 + 3 * number))
        if rng.random() < 0.2:
            main.close()
            self.main = MainLoop.resume(None, self.program, backend=self.url, loop="m")
        elif rng.random() < 0.3:
            with main.fork() as branch:  # names of a branch are no vertices of the main loop
                branch.apply([("+", self.id(500), self.id(501))])
                branch.result().close()
        elif rng.random() < 0.2:
            with main.fork() as branch:
                branch.apply(self.changes(3, 40))
                branch.result().close()
                branch.merge()


@pytest.mark.parametrize(("program", "params"), PROGRAMS)
@pytest.mark.sample(1)
def test_every_answer_is_that_of_a_run(
    program: type[Vertex], params: dict[str, Any], tmp_path: Path
) -> None:
    seed = seeds.seed()
    history = History(program, params, f"lmdb://{tmp_path}/state", seed)
    starts = [history.check()]
    for number in range(ROUNDS):
        history.step(number)
        starts.append(history.check())
    history.main.close()
    assert program is PageRank or "warm" in starts


class Toll(Vertex):
    """The smallest toll of a vertex and of those after it."""

    direction = "in"
    lowest: float = state(0.0)
    toll: float = state(7.0)
    messages = Min(float)

    def init(self):
        self.lowest = self.toll

    def gather(self, iteration, source, delta):
        self.lowest = min(self.toll, delta.value)

    def scatter(self, iteration):
        self.emitAll(self.lowest)


@pytest.mark.parametrize("partitions", [1, 2])
def test_messages_against_the_direction_of_edges(partitions: int, tmp_path: Path) -> None:
    vertices = {"id": [1, 2, 3], "toll": [5.0, 6.0, 7.0]}
    graph = Graph.from_arrays([1, 2], [2, 3], vertices=vertices, partitions=partitions)
    with MainLoop(Toll, graph, backend=f"lmdb://{tmp_path}/state") as main:
        assert main.query().to_dict("lowest") == {1: 5.0, 2: 6.0, 3: 7.0}


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_branch_that_was_loaded_from_the_store_is_merged(partitions: int, tmp_path: Path) -> None:
    graph = Graph.from_arrays(["a", "m", "z"], ["m", "z", "y"], partitions=partitions)
    url, params = f"lmdb://{tmp_path}/state", {"origin": "a"}
    with MainLoop(BreadthFirstSearch, graph, params=params, backend=url) as main:
        main.query().close()
        main.ingest([("+", "a", "b")])
        main.query().close()
        branch = main.fork("later")
        with main.fork("first") as other:
            other.result().close()
            other.merge()
        branch.apply([("+", "z", "c")])
        branch.result().close()
        branch.merge()
        branch.close()
        main.ingest([("+", "a", "bb")])
        wanted = {"a": 0, "b": 1, "bb": 1, "m": 1, "z": 2, "y": 3, "c": 3}
        assert main.query().to_dict() == wanted


@pytest.mark.parametrize("strings", [False, True])
def test_a_branch_of_a_resumed_loop_has_no_rows_of_before(strings: bool, tmp_path: Path) -> None:
    name: Any = (lambda v: f"n{v:03}") if strings else int
    ids = [name(v) for v in range(1, 10)]
    graph = Graph.from_arrays(ids[:-1], ids[1:], partitions=2, partitioner="fennel")
    url, params = f"lmdb://{tmp_path}/state", {"origin": ids[0]}
    with MainLoop(BreadthFirstSearch, graph, params=params, backend=url, loop="m") as main:
        main.query().close()
        main.ingest([("+", name(1), name(8))])
        main.query().close()
    with (
        MainLoop.resume(None, BreadthFirstSearch, backend=url, loop="m") as main,
        main.fork() as branch,
    ):
        branch.apply([("-", name(1), name(8)), ("-", name(2), name(3))])
        depths = branch.result().to_dict()
    assert depths == {v: k if k < 2 else INT_MAX for k, v in enumerate(ids)}


def test_loops_of_several_threads(tmp_path: Path) -> None:
    def rounds(number: int) -> list[dict[Any, Any]]:
        graph = Graph.from_arrays([0, 1], [1, 2], partitions=2)
        url, answers = f"lmdb://{tmp_path}/{number}", []
        with MainLoop(BreadthFirstSearch, graph, params={"origin": 0}, backend=url) as main:
            for k in range(6):
                main.ingest([("+", k + 2, k + 3)])
                answers.append(main.query().to_dict())
        return answers

    before = {*loop_task._partitions}
    with ThreadPoolExecutor(6) as pool:
        for answers in pool.map(rounds, range(6)):
            assert answers == [{v: v for v in range(k + 4)} for k in range(6)]
    assert {*loop_task._partitions} <= before  # what a loop that was closed had is freed
