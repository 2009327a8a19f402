"""What a program does in a branch and not in the main loop: `self.loop`, and `adapt`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import vertexsdk
from tests.support.inprocess import InProcess
from vertexsdk import MAIN_LOOP, Min, Vertex, state
from vertexsdk.program.program import Program

EDGES = [(v, (3 * v + 1) % 20) for v in range(20)] + [(v, v + 1) for v in range(19)]


class Work(Vertex):
    """The smallest id that reaches a vertex; a branch starts from other values, and sends more."""

    begun: int = state(0)
    least: int = state(0)
    messages = Min(int)

    def init(self):
        self.begun = self.id
        self.least = 100 + self.id

    def adapt(self):
        if self.loop != "what-if":
            self.begun = self.begun + 1000

    def gather(self, iteration, source, delta):
        self.least = min(self.least, delta.value)

    def scatter(self, iteration):
        if self.loop == MAIN_LOOP:
            self.emitAll(self.id + 50)
        elif self.loop == "what-if":
            self.emitAll(self.least)
        else:
            self.emitAll(self.id)


class Counts(Vertex):
    """An events program whose branch goes on from the main loop's state, adapted."""

    heard: int = state(0)
    forks: int = state(0)

    def adapt(self):
        self.forks += 1
        self.heard = 0

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        self.heard += 1

    def scatter(self, iteration):
        pass


def wanted(sees: str, forked: bool) -> dict[int, dict[str, int]]:
    into = {v: [a for a, b in EDGES if b == v] for v in range(20)}
    if sees == "what-if":
        least = {v: 100 + v for v in range(20)}
        for _ in range(20):
            least = {v: min([least[v], *(least[a] for a in into[v])]) for v in least}
    else:
        add = 50 if sees == MAIN_LOOP else 0
        least = {v: min([100 + v, *(a + add for a in into[v])]) for v in range(20)}
    more = 1000 if forked and sees != "what-if" else 0
    return {v: {"begun": v + more, "least": least[v]} for v in range(20)}


@pytest.mark.parametrize("compiled", [False, "require"])
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_loop_and_adapt(partitions: int, compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = InProcess(Program(Work), EDGES)
    plan = runs._plan
    for sees, forked in ((MAIN_LOOP, False), ("what-if", True), ("another", True)):
        monkeypatch.setattr(
            runs, "_plan", lambda *a, s=sees, f=forked: replace(plan(*a), sees=s, forked=f)
        )
        rows, _, _ = runs.run({}, partitions=partitions, compiled=compiled)
        assert rows == wanted(sees, forked), (sees, forked)


@pytest.mark.parametrize("partitions", [1, 2])
def test_branches_of_an_earlier_version_and_of_what_was_merged(partitions: int) -> None:
    a, b = zip(*EDGES, strict=True)
    graph = vertexsdk.Graph.from_arrays(a, b, partitions=partitions)
    url = f"memory://earlier-branch-work-{partitions}"
    with vertexsdk.MainLoop(Work, graph, backend=url, compiled=False) as main:
        with main.fork("earlier", at=main.iteration) as branch, closing(branch.result()) as result:
            assert dict(result.rows()) == wanted("earlier", True)
        with main.fork("what-if") as branch, closing(branch.result()) as result:
            assert dict(result.rows()) == wanted("what-if", True)
            branch.merge()
        for name, at in (("newest", None), ("merged", main.iteration)):
            with main.fork(name, at=at) as branch, closing(branch.result()) as result:
                assert dict(result.rows()) == wanted(name, True)


@pytest.mark.parametrize("strings", [False, True])
def test_on_spark(spark: SparkSession, strings: bool) -> None:
    name: Any = (lambda v: f"v{v:02}") if strings else int
    a, b = ([name(e[k]) for e in EDGES] for k in (0, 1))
    graph = vertexsdk.Graph.from_arrays(a, b, spark=spark, partitions=2)
    if not strings:
        with vertexsdk.MainLoop(
            Work, graph, backend="memory://branch-work", compiled="require"
        ) as main:
            with main.fork("what-if") as branch, closing(branch.start().result()) as result:
                assert dict(result.rows()) == wanted("what-if", True)
            with closing(main.query()) as result:
                assert dict(result.rows()) == wanted("work-1", True)
    with vertexsdk.MainLoop(Counts, graph, backend="memory://counts", replace=True) as main:
        with closing(main.query()) as first:
            assert {row["forks"] for _, row in first.rows()} == {1}
            assert {row["heard"] for _, row in first.rows()} == {0}
        main.ingest([("+", name(0), name(5))])
        with closing(main.query()) as second:
            rows = dict(second.rows())
        assert {row["forks"] for row in rows.values()} == {1}
        with closing(main.read()) as mine:
            assert {row["forks"] for _, row in mine.rows()} == {0}
            assert sum(row["heard"] for _, row in mine.rows()) == len(set(EDGES)) + 1
    graph.unpersist()
