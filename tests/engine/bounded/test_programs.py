"""Programs of users at any delay bound: random monotone ones, odd graphs, methods that fail."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.bounded import in_chunks, turns
from tests.support.graphs import random_graph
from tests.support.inprocess import InProcess
from tests.support.monotone import monotone_program
from tests.support.watching import watched
from vertexsdk import Latest, Min, Vertex, state
from vertexsdk.errors import InputError, ProgramError, VertexError
from vertexsdk.program.analysis.delay_bound import checked_bound, why_synchronous
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Delta
from vertexsdk.testing.oracles import near


class Nearest(Vertex):
    """Length of the shortest path that ends here."""

    length: float = state(0.0)

    messages = Min(float)

    def init(self) -> None:
        self.length = float(self.id % 50)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if delta.value < self.length:
            self.length = delta.value

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.length + target.value)


def agree(program: Program, graph: Any, seed: int, compiled: bool | str = False) -> None:
    """One run at a random bound is as the synchronous one."""
    rng = random.Random(seed)
    kinds = [s.name for s in program.classes]
    vertices = [(v, rng.choice(kinds)) for v in graph.ids]
    runs = InProcess(program, graph.edges, vertices, undirected=graph.undirected)
    wanted, _, _ = runs.run()
    bound, partitions = rng.choice([2, 3, 16, 1000]), rng.choice([2, 3, 7])
    how: dict[str, Any] = {
        "partitions": partitions, "delay_bound": bound, "patient": rng.random() < 0.4,
        "rng": turns(seed if rng.random() < 0.6 else None),
        "placement": in_chunks(graph.ids, partitions) if rng.random() < 0.5 else None,
        "compiled": compiled, "max_hops": 2000,
    }  # fmt: skip
    with watched(runs, bound):
        got, _, _ = runs.run(**how)
    for v, row in wanted.items():
        for name, value in row.items():
            assert near(got[v][name], value, 0.0), (program.classes[0].file, seed, v, name)


def test_random_programs(tmp_path: Path) -> None:
    for seed in range(36):
        rng = random.Random(seed)
        program = monotone_program(rng).load(tmp_path / f"monotone_{seed}.py")
        assert why_synchronous(program, {}) is None
        agree(program, random_graph(rng, vertices=20, edges=60), seed)


def test_random_programs_compiled(tmp_path: Path) -> None:
    for seed in range(100, 103):
        rng = random.Random(seed)
        program = monotone_program(rng).load(tmp_path / f"compiled_{seed}.py")
        for k in range(4):
            agree(program, random_graph(rng, vertices=20, edges=60), seed + k, "require")


ODD = {
    "one vertex": ([], [5]),
    "a loop": ([(5, 5, 1.0)], []),
    "a star outwards": ([(0, k, 1.0) for k in range(1, 30)], []),
    "a star inwards": ([(k, 0, 1.0) for k in range(1, 30)], []),
    "two ways": ([(k, k + 1, 1.0) for k in range(20)] + [(k + 1, k, 1.0) for k in range(20)], []),
    "a ring": ([(k, (k + 1) % 11, 0.5) for k in range(11)], []),
    "two sides": ([(a, b, 1.0) for a in range(0, 12, 2) for b in range(1, 12, 2)], []),
    "all to all": ([(a, b, 0.5) for a in range(8) for b in range(8)], []),
    "no edge": ([], list(range(9))),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_graphs(odd: str) -> None:
    edges, vertices = ODD[odd]
    runs = InProcess(Program(Nearest), edges, vertices)
    wanted, _, _ = runs.run()
    ids = sorted(wanted)
    ways = ((2, 7, False), (3, 2, True), (16, 7, True), (1000, 2, False))
    for bound, partitions, patient in ways:
        for seed, placement in ((None, None), (1, None), (None, in_chunks(ids, partitions))):
            with watched(runs, bound):
                got, _, _ = runs.run(
                    partitions=partitions, delay_bound=bound, patient=patient, rng=turns(seed),
                    placement=placement, max_hops=500,
                )  # fmt: skip
            assert got == wanted, (bound, partitions, patient, seed)


def test_a_tolerance() -> None:
    class Roughly(Nearest):
        tolerance = 0.5

    for seed in range(10):
        graph = random_graph(random.Random(seed), vertices=20, edges=60, undirected=False)
        exact, _, _ = InProcess(Program(Nearest), graph.edges, graph.vertices).run()
        runs = InProcess(Program(Roughly), graph.edges, graph.vertices)
        with watched(runs, 8):
            got, _, _ = runs.run(partitions=3, delay_bound=8, rng=turns(seed), max_hops=500)
        for v, row in exact.items():
            assert 0 <= got[v]["length"] - row["length"] <= 0.5 * len(exact)


def test_a_method_that_fails_says_where() -> None:
    class Falls(Nearest):
        def gather(self, iteration: int, source: int, delta: Delta) -> None:
            self.length = min(self.length, delta.value)
            if self.id == 7:
                raise ValueError("seven")

    runs = InProcess(Program(Falls), [(k, k + 1, 1.0) for k in range(20)])
    with pytest.raises(VertexError, match=r"(?s)gather.*seven|seven"):
        runs.run(partitions=3, delay_bound=16, max_hops=100)


def test_a_message_to_a_vertex_which_is_no_target() -> None:
    class Throws(Nearest):
        def scatter(self, iteration: int) -> None:
            self.emit(0, self.length)
            for target in self.targets:
                self.emit(target, self.length)

    runs = InProcess(Program(Throws), [(k, k + 1, 1.0) for k in range(9)])
    with pytest.raises(ProgramError, match="needs synchronous iterations"):
        runs.run(partitions=2, delay_bound=16, max_hops=100)


class Newest(Nearest):
    messages = Latest(float)  # type: ignore[assignment]

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.length = min(delta.values)


class Refusing(Nearest):
    asynchronous = False


class Counting(Nearest):
    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.length = min(self.length, delta.value, float(iteration))


class Limited(Nearest):
    max_iterations = 9


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Newest, "fixed point may depend on the order"),
        (Refusing, "says asynchronous = False"),
        (Counting, "reads the iteration"),
        (Limited, "ends after a number of iterations"),
    ],
)
def test_refused(cls: type[Vertex], said: str) -> None:
    with pytest.raises(InputError, match=said):
        checked_bound(16, Program(cls), {}, None)
    assert checked_bound(1, Program(cls), {}, None) == 1
    assert checked_bound("auto", Program(cls), {}, None) == "auto"


@pytest.mark.parametrize("bound", [0, -1, 1.5, True, "x", None, 2**30])
def test_no_bounds(bound: Any) -> None:
    with pytest.raises(InputError, match=r"the delay bound is .*; it must be an integer from 1"):
        checked_bound(bound, Program(Nearest), {}, None)
