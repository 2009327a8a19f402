"""A mutable default belongs to each vertex alone, and a change of it in place is a change."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support import seeds
from tests.support.inprocess import InProcess
from vertexsdk import Latest, Vertex, state
from vertexsdk.program.program import Program


class Heard(Vertex):
    """The ids from which a vertex is reached, gathered in place."""

    seen: list = state([])
    counts: dict = state({})
    nested: dict = state({"ids": set()})
    messages = Latest(object)

    def gather(self, iteration, source, delta):
        for ids in delta.values:
            for v in ids:
                if v not in self.seen:
                    self.seen.append(v)
                    self.counts[v] = iteration
                    self.nested["ids"].add(v)

    def scatter(self, iteration):
        self.emitAll((self.id, *sorted(self.seen)))


class Events(Vertex):
    seen: list = state([])
    table: dict = state({})

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        self.seen.append(source)
        self.table[source] = iteration

    def scatter(self, iteration):
        pass


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_vertices_do_not_share_a_default(partitions: int) -> None:
    seed = seeds.seed()
    rng = random.Random(seed)
    edges = [(a, b) for a in range(12) for b in rng.sample(range(12), 2) if a != b]
    state_, _, _ = InProcess(Program(Heard), edges).run({}, partitions=partitions)
    reached: dict[int, set[int]] = {v: {a for a, b in edges if b == v} for v in state_}
    for _ in state_:
        for v in state_:
            reached[v] = reached[v].union(*(reached[a] for a in reached[v]))
    for v, row in state_.items():
        assert set(row["seen"]) == set(row["counts"]) == row["nested"]["ids"] == reached[v]


@pytest.mark.parametrize("partitions", [1, 2])
def test_neither_do_those_of_an_events_program(partitions: int) -> None:
    edges: list[Any] = [(0, 1), (1, 2), (2, 0), (2, 1)]
    rows, _, _ = InProcess(Program(Events), edges).run({}, partitions=partitions)
    assert {v: row["seen"] for v, row in rows.items()} == {0: [0], 1: [1], 2: [2, 2]}
    assert Events.seen.default == []  # type: ignore[attr-defined]
