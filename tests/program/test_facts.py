"""What is read off a class when it is defined, and what is assumed where nothing can be read."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from vertexsdk import Latest, Min, Sum, Vertex, aggregate, param, state
from vertexsdk.algorithms import ConnectedComponents, Degree, PageRank, ShortestPaths
from vertexsdk.program.facts import Facts
from vertexsdk.program.program import spec_of
from vertexsdk.program.vertex import Delta

UNREADABLE = """
class Unreadable(Vertex):
    length: float = state(0.0)
    messages = Min(float)

    def gather(self, iteration, source, delta):
        self.length = delta.value

    def scatter(self, iteration):
        self.emitAll(self.length)
"""


class Nosy(Vertex):
    """Reads whatever can be read, by way of a method of its own."""

    rank: float = state(0.0)
    label: int = state(0)
    weight: float = param(1.0)
    messages = Sum(float)
    total = aggregate(Sum(float))

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if iteration > 2:
            self.rank = self.share() * delta.value

    def share(self) -> float:
        return self.weight / self.num_vertices if self.loop == "main" else self.total.value

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            if target.reverse:
                self.emit(target, self.rank * target.value)


class Twice(Vertex):
    seen: int = state(0)
    messages = Latest(int)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.seen += len(delta.values)

    def scatter(self, iteration: int) -> None:
        self.emitAll(1)
        for target in self.targets:
            self.emit(target, iteration + int(target.value))


def facts(cls: type[Vertex], *names: str) -> dict[str, Any]:
    return {name: getattr(spec_of(cls).facts, name) for name in names}


@pytest.mark.parametrize(
    ("cls", "shape", "derivable"),
    [
        (PageRank, "uniform", False),
        (ConnectedComponents, "uniform", False),
        (ShortestPaths, "edge", True),
        (Nosy, "edge", False),
        (Twice, "many", False),
    ],
)
def test_the_shape_of_messages(cls: type[Vertex], shape: str, derivable: bool) -> None:
    assert facts(cls, "message_shape", "derivable") == {
        "message_shape": shape, "derivable": derivable,
    }  # fmt: skip


def test_what_methods_read_counts_helpers_too() -> None:
    read = facts(
        Nosy, "always", "reads_iteration", "reads_num_vertices", "reads_loop", "reads_value",
        "reads_reverse", "reads_targets", "gather_leaves", "nonlinear",
    )  # fmt: skip
    assert read == {
        "always": True, "reads_iteration": "gather", "reads_num_vertices": {"gather"},
        "reads_loop": True, "reads_value": True, "reads_reverse": True, "reads_targets": True,
        "gather_leaves": "rank", "nonlinear": "Nosy.gather calls a method that reads state",
    }  # fmt: skip
    assert facts(Twice, "volatile", "gather_reads") == {"volatile": True, "gather_reads": "seen"}


def test_messages_that_depend_on_no_state() -> None:
    assert not spec_of(Degree).facts.scatter_reads
    assert spec_of(PageRank).facts.scatter_reads
    assert spec_of(PageRank).facts.converged_reads == {"change"}
    assert spec_of(PageRank).facts.aggregates_read == {"dangling"}


def test_the_most_is_assumed_of_a_class_without_source() -> None:
    space: dict[str, Any] = {"Vertex": Vertex, "Min": Min, "state": state, "__name__": "nowhere"}
    exec(UNREADABLE, space)
    assert spec_of(space["Unreadable"]).facts == Facts(
        source_missing="the source of gather cannot be read", message_kind="min",
        scalar_messages=True, float_state=True, always=False,
    )  # fmt: skip


def test_facts_travel_to_workers() -> None:
    assert pickle.loads(pickle.dumps(spec_of(PageRank).facts)) == spec_of(PageRank).facts
