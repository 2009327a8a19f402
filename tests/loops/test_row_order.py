"""Sums of floats are the same to the last bit where rows and partitions are the same.

A loop is compared with one that had the same changes and queries, and no checkpoints, branches and
merges beside them. What is restored from the store begins with `init`, so from there on it is
compared with a loop that is opened on the edges as they are then.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.random_changes import Edges, key_of, random_rows
from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop, Sum, Vertex, aggregate, state
from vertexsdk.algorithms import PageRank
from vertexsdk.compile import delivery
from vertexsdk.loops import branch_loop
from vertexsdk.testing.oracles import near

VERTICES, ROUNDS = 30, 8


class Flow(Vertex):
    """What flows through a vertex; an answer goes on from the one before."""

    amount: float = state(0.0)
    messages = Sum(float)
    change = aggregate(Sum(float))

    def init(self):
        self.amount = 1.0

    def gather(self, iteration, source, delta):
        self.change.contribute(abs(1.0 + delta.value - self.amount))
        self.amount = 1.0 + delta.value

    def scatter(self, iteration):
        self.emitAll(0.05 * self.amount)

    def converged(self, iteration, aggregates):
        return bool(aggregates.change <= 1e-10)


class Steps(Vertex):
    """What flows along edges by their values, in so many iterations from `init`."""

    max_iterations = 7
    amount: float = state(0.0)
    messages = Sum(float)

    def init(self):
        self.amount = 1.0 if len(self.targets) == 2 else 0.0

    def gather(self, iteration, source, delta):
        self.amount = 0.1 * self.amount + delta.value

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.amount * target.value)


PROGRAMS: list[tuple[type[Vertex], dict[str, Any]]] = [
    (PageRank, {"epsilon": 1e-10}),
    (PageRank, {"iterations": 9}),
    (Flow, {}),
    (Steps, {}),
]


class Pair:
    """Two loops with the same changes and queries; `other` has whatever else may happen."""

    def __init__(self, program: type[Vertex], params: dict[str, Any], url: str) -> None:
        self.number = seed()
        rng = self.rng = random.Random(self.number)
        self.program, self.params, self.url = program, params, url
        self.partitions = rng.choice([1, 2, 7])
        strings, self.undirected = rng.random() < 0.5, rng.random() < 0.4
        self.compiled = rng.choice(["require", False])
        self.ids: list[Any] = [f"n{k}" if strings else k for k in range(VERTICES)]
        # Names get other codes when they are loaded again, and so they come to other partitions.
        self.moves = strings and self.partitions > 1
        self.values = [rng.random() for _ in range(50)]
        self.edges: Edges = {}
        first = [v for k, v in enumerate(self.ids) if k % 4]  # the others come later, among them
        while len(self.edges) < 80:
            ends = rng.sample(first, 2)
            self.edges[key_of(*ends, undirected=self.undirected)] = rng.choice(self.values)
        self.plain, self.other = self.opened("plain"), self.opened("other")
        self.versions: dict[int, Edges] = {}
        self.exact = True
        self.stored = False  # a state, from which a loop goes on, and need not begin with `init`

    def opened(self, loop: str) -> MainLoop:
        """A loop on the graph as it is, from edges in any order."""
        rows = self.rng.sample(sorted(self.edges.items()), len(self.edges))
        ends = [[pair[k] for pair, _ in rows] for k in (0, 1)]
        graph = Graph.from_arrays(
            *ends, [x for _, x in rows], undirected=self.undirected, partitions=self.partitions
        )
        return MainLoop(
            self.program, graph, params=self.params, backend=self.url, loop=loop,
            compiled=self.compiled, replace=True,
        )  # fmt: skip

    def check(self, got: dict[Any, Any], wanted: dict[Any, Any]) -> None:
        assert got.keys() == wanted.keys()
        if self.exact:
            assert {v: x.hex() for v, x in got.items()} == {v: x.hex() for v, x in wanted.items()}
        else:
            assert all(near(got[v], wanted[v], 1e-9) for v in wanted)

    def anew(self) -> None:
        self.plain.close()
        self.plain, self.exact = self.opened("plain"), not (self.moves or self.stored)

    def resume(self) -> None:
        self.other.close()
        self.other = MainLoop.resume(
            None, self.program, backend=self.url, loop="other", compiled=self.compiled
        )
        self.versions.clear()
        self.anew()

    def lose(self) -> None:
        """A processor is lost: the loop is restored from its newest version."""
        self.other._history.stale = True
        self.anew()

    def checkpoint(self) -> None:
        self.other._history.take_snapshot()
        self.stored |= self.other.from_init is None

    def try_out(self) -> None:
        with self.other.fork() as branch:
            branch.apply(self.changes(dict(self.edges)))
            branch.result().close()

    def go_back(self) -> None:
        """Change a fork of a version of before, which is restored from the store."""
        if not self.versions:
            return
        at, edges = self.rng.choice(sorted(self.versions.items()))
        now, self.edges, exact = self.edges, edges, self.exact
        self.exact = not (self.moves or self.stored)
        rows = self.changes(dict(edges))
        with closing(self.opened("before")) as before, self.other.fork(at=at) as branch:
            before.ingest(rows)
            branch.apply(rows)
            with closing(before.query()) as wanted, closing(branch.result()) as got:
                self.check(got.to_dict(), wanted.to_dict())
        self.edges, self.exact = now, exact

    def changes(self, edges: Edges) -> list[Any]:
        return random_rows(
            self.rng, edges, self.rng.randint(1, 6), undirected=self.undirected,
            vertices=self.ids, values=self.values,
        )  # fmt: skip

    def query(self) -> None:
        with closing(self.plain.query()) as answer:
            wanted = answer.to_dict()
        if self.rng.random() < 0.4:
            with self.other.fork() as branch:
                branch.result().close()
                branch.merge()
        with closing(self.other.query()) as answer:
            self.check(answer.to_dict(), wanted)
        self.versions[self.other.iteration] = dict(self.edges)


@pytest.mark.parametrize("pull", [0, delivery.PULL, 1 << 40])  # never, by size, and always
@pytest.mark.parametrize(("program", "params"), PROGRAMS)
@pytest.mark.sample(1)
def test_sums_to_the_last_bit(
    program: type[Vertex], params: dict[str, Any], pull: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(delivery, "PULL", pull)
    pair = Pair(program, params, f"lmdb://{tmp_path}/state")
    monkeypatch.setattr(branch_loop, "SLICE", pair.rng.choice([0.0, 0.001, 1.0]))
    events: list[Callable[[], None]] = [
        pair.resume, pair.lose, pair.checkpoint, pair.try_out, pair.go_back,
    ]  # fmt: skip
    for _ in range(ROUNDS):
        rows = pair.changes(pair.edges)
        pair.plain.ingest(rows)
        pair.other.ingest(rows)
        for event in pair.rng.sample(events, pair.rng.randint(0, 2)):
            event()
        if pair.rng.random() < 0.8:
            pair.query()
    pair.query()
    pair.plain.close()
    pair.other.close()


def test_a_mirror_whose_last_edge_a_replayed_log_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history in which an edge of it comes again: a graph that is loaded has no such mirror."""
    monkeypatch.setattr(sys.modules[__name__], "seed", lambda: 2645853908)
    test_sums_to_the_last_bit(Flow, {}, 8, tmp_path, monkeypatch)


def test_a_sum_that_is_the_same_again_is_not_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history in which a sum that followed by differences was another one in its last bit."""
    monkeypatch.setattr(sys.modules[__name__], "seed", lambda: 3342959372)
    test_sums_to_the_last_bit(Steps, {}, 0, tmp_path, monkeypatch)


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("program", [PageRank, Flow])
@pytest.mark.sample(2)
def test_a_replayed_log_leaves_the_rows_of_a_loaded_graph(
    program: type[Vertex], partitions: int, tmp_path: Path
) -> None:
    """Vertices that came later are among the others."""
    rng, url = random.Random(seed()), f"lmdb://{tmp_path}/state"
    rows = [(*rng.sample(range(60), 2), rng.random()) for _ in range(400)]
    edges = {(a, b): x for a, b, x in rows}
    loaded = {pair: x for pair, x in edges.items() if pair[0] % 2 and pair[1] % 2}
    answers = []
    for some in (loaded, edges):
        ends = [[pair[k] for pair in some] for k in (0, 1)]
        graph = Graph.from_arrays(*ends, [*some.values()], partitions=partitions)
        loop = f"of-{len(some)}"
        MainLoop(program, graph, backend=url, loop=loop).close()
        with MainLoop.resume(None, program, backend=url, loop=loop) as main:
            main.ingest([("+", *pair, x) for pair, x in edges.items() if pair not in some])
        again = MainLoop.resume(None, program, backend=url, loop=loop)
        with again as main, closing(main.query()) as answer:
            answers.append({v: x.hex() for v, x in answer.to_dict().items()})
    assert answers[0] == answers[1]
