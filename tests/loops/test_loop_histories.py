"""Random histories of a main loop and its branches: every answer is that of a run from scratch."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import SparkSession

from tests.support.seeds import draws
from vertexsdk import Graph, InputError, MainLoop
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.loops.branch_loop import BranchLoop
from vertexsdk.state import open_store
from vertexsdk.testing.oracles import disagreements, expected

URL = "memory://histories"
Edges = dict[tuple[int, int], float]
END = st.integers(0, 6)
PAIRS = st.lists(st.tuples(END, END), min_size=1, max_size=5)


def changes_of(
    pairs: list[tuple[int, int]], smallest: int, most: int
) -> st.SearchStrategy[list[tuple[str, int, int, int]]]:
    """Changes of few edges, so of the same ones in a batch; each is named either way."""
    ends = st.sampled_from([*pairs, *((b, a) for a, b in pairs)])
    change = st.tuples(st.sampled_from("++-~"), ends, st.integers(1, 4))
    flat = change.map(lambda c: (c[0], *c[1], c[2]))
    return st.lists(flat, min_size=smallest, max_size=most)


CHANGES = PAIRS.flatmap(lambda pairs: changes_of(pairs, 0, 8))
SOME_CHANGES = PAIRS.flatmap(lambda pairs: changes_of(pairs, 1, 5))
PARAMS: dict[str, dict[str, Any]] = {"sssp": {"origin": 1}, "bfs": {"origin": 1}}
PARAMS["pagerank"] = {"epsilon": 1e-13}
WAYS: list[tuple[str, int, Any]] = [
    ("sssp", 1, "require"),
    ("wcc", 1, False),
    ("pagerank", 2, "require"),
    ("wcc", 7, "require"),
    ("kcore", 2, "require"),
    ("bfs", 7, False),
    ("degree", 1, "require"),
]


def made(edges: Edges, changes: list[Any], undirected: bool) -> Edges:
    """The edges after the changes."""
    new = dict(edges)
    for sign, a, b, x in changes:
        key = (min(a, b), max(a, b)) if undirected else (a, b)
        if sign == "+" or key in new:
            new[key] = float(x)
        if sign == "-":
            new.pop(key, None)
    return new


class Histories(RuleBasedStateMachine):
    """A main loop, its branches and branches of those, and what their graphs must be."""

    branches = Bundle("branches")
    spark: Any = None
    ways = WAYS

    @initialize(
        number=st.integers(0, 99), undirected=st.booleans(), changes=SOME_CHANGES,
        bound=st.sampled_from([1, 2, 3, 16]), strings=st.booleans(), windowed=st.booleans(),
    )  # fmt: skip
    def begin(
        self, number: int, undirected: bool, changes: Any, bound: int, strings: bool,
        windowed: bool,
    ) -> None:  # fmt: skip
        self.strings, self.windowed = strings, windowed
        self.name, partitions, compiled = self.ways[number % len(self.ways)]
        self.undirected = undirected
        self.edges = made({(0, 1): 2.0}, changes, undirected) or {(0, 1): 2.0}
        self.options: Any = {"backend": URL, "loop": "main", "compiled": compiled}
        self.options["snapshot_every"] = 8
        self.options["delay_bound"] = bound
        params = {k: self.id(x) if k == "origin" else x for k, x in self.params.items()}
        rows = ((self.id(a), self.id(b), x) for (a, b), x in self.edges.items())
        columns = zip(*rows, strict=True)
        given: Any = {"spark": self.spark, "undirected": undirected, "partitions": partitions}
        graph = Graph.from_arrays(*columns, **given)
        program = ALGORITHMS[self.name]
        self.main = MainLoop(program, graph, params=params, **self.options)
        if windowed:
            self.main.window(1e6)  # nothing leaves it
        self.offset = self.received = self.forks = 0
        self.all: list[BranchLoop] = []
        self.kept: dict[int, Edges] = {0: self.edges}
        self.of: dict[str, Edges] = {}  # the graph of each branch
        self.since: dict[str, int] = {}  # what its parent had received
        self.parents: dict[str, str] = {}
        self.merged: set[str] = set()
        self.took: dict[str, int] = {}

    @property
    def params(self) -> dict[str, Any]:
        return PARAMS.get(self.name, {})

    def id(self, number: int) -> Any:
        """A vertex; names of one digit order as the numbers do."""
        return f"v{number}" if self.strings else number

    def number(self, vertex: Any) -> Any:
        return int(vertex[1:]) if isinstance(vertex, str) else vertex

    def named(self, changes: list[Any]) -> list[Any]:
        return [(sign, self.id(a), self.id(b), x) for sign, a, b, x in changes]

    def give(self, changes: list[Any], offset: int) -> dict[str, int]:
        """Ingest changes; with a window each has its time."""
        time: Any = [float(self.received + k) for k in range(len(changes))]
        options: Any = {"time": time} if self.windowed else {}
        return self.main.ingest(self.named(changes), source="s", offset=offset, **options)

    def teardown(self) -> None:
        if hasattr(self, "main"):
            for branch in self.all:
                branch.close()
            self.main.close()
            with open_store(URL) as store:
                assert store.verify() == []
                for loop in store.loops():
                    store.delete(loop)

    def check(self, result: Any, edges: Edges) -> None:
        params = self.params
        rows = [(a, b, x) for (a, b), x in sorted(edges.items())]
        origin = [params["origin"]] if "origin" in params else []
        wanted = expected(self.name, rows, origin, params, undirected=self.undirected)
        columns = result.columns()
        ids = [self.number(v) for v in columns["id"].tolist()]
        lists = {f: [self.number(x) for x in columns[f].tolist()] for f in wanted}
        got = {v: {f: lists[f][k] for f in wanted} for k, v in enumerate(ids)}
        assert not disagreements(wanted, got, 1e-9)
        result.close()

    def has_vertices(self, edges: Edges) -> bool:
        return bool(edges) or "origin" in self.params

    @rule(changes=CHANGES)
    def ingest(self, changes: Any) -> None:
        counts = self.give(changes, self.offset)
        assert sum(counts.values()) == len(changes)
        self.offset += 1
        self.received += len(changes)
        self.edges = made(self.edges, changes, self.undirected)
        self.kept[self.main.iteration] = self.edges

    @rule(changes=CHANGES, back=st.integers(1, 3))
    def ingest_again(self, changes: Any, back: int) -> None:
        if self.offset:
            counts = self.give(changes, max(self.offset - back, 0))
            assert counts["repeated"] == sum(counts.values()) == len(changes)
            self.kept[self.main.iteration] = self.edges

    @rule(changes=SOME_CHANGES)
    def ingest_strictly(self, changes: Any) -> None:
        self.main.strict = True
        edges = dict(self.edges)
        wrong = False
        for change in changes:
            key = tuple(sorted(change[1:3])) if self.undirected else tuple(change[1:3])
            wrong |= change[0] != "+" and key not in edges
            edges = made(edges, [change], self.undirected)
        before = self.main.offsets, self.main.changes
        if wrong:
            with pytest.raises(InputError, match="there is no edge"):
                self.give(changes, self.offset)
            assert (self.main.offsets, self.main.changes) == before
        else:
            self.main.strict = False
            self.ingest(changes)
        self.main.strict = False

    @rule()
    def query(self) -> None:
        if not self.has_vertices(self.edges):
            with pytest.raises(InputError, match="no edge"):
                self.main.query()
            return
        result = self.main.query()
        assert result.statistics["behind"] == 0
        self.check(result, self.edges)
        self.kept[self.main.iteration] = self.edges

    @rule(target=branches)
    def fork(self) -> Any:
        branch = self.main.fork(f"fork-{self.forks}")
        return self.forked(branch, "", self.edges, self.received)

    @rule(target=branches, pick=st.integers(0, 100))
    def fork_at(self, pick: int) -> Any:
        at = sorted(self.kept)[pick % len(self.kept)]
        branch = self.main.fork(f"fork-{self.forks}", at=at)
        return self.forked(branch, "", self.kept[at], -1)

    @rule(target=branches, branch=branches)
    def fork_fork(self, branch: BranchLoop) -> Any:
        if branch.loop in self.merged:
            return branch
        fork = branch.fork(f"fork-{self.forks}")
        return self.forked(fork, branch.loop, self.of[branch.loop], self.took[branch.loop])

    def forked(self, branch: BranchLoop, parent: str, edges: Edges, received: int) -> BranchLoop:
        self.forks += 1
        self.all.append(branch)
        self.of[branch.loop], self.since[branch.loop] = edges, received
        self.parents[branch.loop] = parent
        self.took[branch.loop] = branch._history.ledger.received
        return branch

    @rule(branch=branches, changes=CHANGES)
    def what_if(self, branch: BranchLoop, changes: Any) -> None:
        if branch.loop not in self.merged:
            branch.apply(self.named(changes))
            self.of[branch.loop] = made(self.of[branch.loop], changes, self.undirected)
            self.took[branch.loop] += len(changes)

    @rule(branch=branches)
    def answer(self, branch: BranchLoop) -> None:
        if self.has_vertices(self.of[branch.loop]):
            self.check(branch.result(timeout=60), self.of[branch.loop])

    @rule(branch=branches)
    def merge(self, branch: BranchLoop) -> None:
        name = branch.loop
        if name in self.merged or not self.has_vertices(self.of[name]):
            return
        branch.result(timeout=60).close()
        parent = self.parents[name]
        now = self.took[parent] if parent else self.received
        if self.since[name] != now or parent in self.merged:
            with pytest.raises(InputError):
                branch.merge()
            return
        branch.merge()
        self.merged.add(name)
        if parent:
            self.of[parent], self.took[parent] = self.of[name], self.took[name]
        else:
            self.edges, self.received = self.of[name], self.took[name]
            self.check(self.main.read(), self.edges)
            self.kept[self.main.iteration] = self.edges

    @rule(one=branches, other=branches)
    def diff(self, one: BranchLoop, other: BranchLoop) -> None:
        if all(self.has_vertices(self.of[b.loop]) for b in (one, other)):
            with contextlib.closing(one.result(60)) as a, contextlib.closing(other.result(60)) as b:
                mine, theirs = a.to_dict(), b.to_dict()
            found = one.diff(other)
            differ = {
                v for v in mine.keys() | theirs.keys()
                if v not in mine or v not in theirs or not same(mine[v], theirs[v])
            }  # fmt: skip
            assert set(found.ids.tolist()) == differ
            for v, x in zip(found.ids.tolist(), found.mine.tolist(), strict=True):
                assert x is None if v not in mine else same(x, mine[v])

    @rule()
    def resume(self) -> None:
        self.main.close()
        program = ALGORITHMS[self.name]
        self.main = MainLoop.resume(self.spark, program, **self.options)
        assert self.main.offsets == ({"s": self.offset - 1} if self.offset else {})
        self.parents = {name: parent or "closed" for name, parent in self.parents.items()}
        self.took["closed"] = -2
        self.merged.add("closed")

    @invariant()
    def staleness(self) -> None:
        if hasattr(self, "main") and self.main._history.ledger.state:
            assert self.main.changes == self.received
            with contextlib.closing(self.main.read()) as newest:
                behind = newest.statistics["behind"]
                vertex = next(iter(newest.to_dict()))
            assert 0 <= behind <= self.received
            assert self.main.lookup([vertex])[vertex]["behind"] == behind


def same(a: Any, b: Any) -> bool:
    return bool(a == b or (isinstance(a, float) and math.isnan(a) and np.isnan(b)))


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=draws(8, 25), stateful_step_count=25, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


ON_SPARK: list[tuple[str, int, Any]] = [
    ("sssp", 1, True),
    ("pagerank", 1, True),
    ("wcc", 2, False),
    ("kcore", 1, True),
]


@pytest.mark.parametrize("way", range(len(ON_SPARK)))
def test_histories_on_spark(way: int, spark: SparkSession) -> None:
    class OnSpark(Histories):
        ways = ON_SPARK[way : way + 1]

    OnSpark.spark = spark
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        OnSpark,
        settings=settings(
            max_examples=2, stateful_step_count=12, deadline=None, database=None,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
