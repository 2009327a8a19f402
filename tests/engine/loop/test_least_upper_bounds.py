"""A vertex is evaluated at least upper bounds of versions too: without that, answers are wrong.

A version is (epoch, round, iteration). A vertex that differs in the new epoch from iteration i on,
and has a producer that sent something in iteration j of the old one, gathers in the new epoch in
iteration j too, though nothing differs there: ("Differential dataflow", section 3.4, Algorithm 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.drawn_loops import check_drawn_loops, graph_of, name, rows_of
from tests.support.recorded_iterations import same_iterations
from tests.support.simulated_histories import Cores
from vertexsdk import MainLoop, Sum, Vertex, run, state
from vertexsdk.algorithms import Coreness, LabelPropagation, StronglyConnectedComponents
from vertexsdk.engine._history_partition import RefinedIterations


class Total(Vertex):
    """The sum of what producers sent, of which each has a message for two iterations."""

    total: int = state(0)
    messages = Sum(int)
    max_iterations = 6

    def gather(self, iteration: int, source: int, delta: Any) -> None:
        self.total = self.total * 2 + delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.total % 5 + 1)


def forget_later(*_: Any) -> None:
    """In place of `RefinedIterations._schedule_later`."""


def none_opened(*_: Any) -> Any:
    """In place of `RefinedIterations._opened`."""
    return np.zeros(0, np.int32)


MUTANTS = [
    ("_schedule_later", forget_later, [Total, Coreness, LabelPropagation]),
    ("_opened", none_opened, [Cores, StronglyConnectedComponents]),
]


@pytest.mark.parametrize(("attribute", "mutant", "programs"), MUTANTS)
def test_without_them_answers_are_wrong(
    attribute: str, mutant: Any, programs: list[type[Vertex]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefinedIterations, attribute, mutant)
    for cls in programs:
        with pytest.raises(AssertionError):
            check_drawn_loops(cls, 1, 40, same_iterations)


@pytest.mark.parametrize("partitions", [1, 2])
def test_with_them_answers_are_right(partitions: int) -> None:
    assert check_drawn_loops(Total, partitions, 4, same_iterations)["warm"] >= 4


@pytest.mark.parametrize("mutant", [False, True])
def test_an_example(mutant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 -> 2 -> 3 and 4 -> 3: an edge 5 -> 3 differs from iteration 1 on, 2 and 4 do not."""
    edges = {(1, 2): 0, (2, 3): 0, (4, 3): 0}
    options: dict[str, Any] = {"undirected": False, "strings": False, "partitions": 1}
    if mutant:
        monkeypatch.setattr(RefinedIterations, "_schedule_later", forget_later)
    url = f"memory://bounds-{mutant}"
    with MainLoop(Total, graph_of(edges, **options), backend=url) as main:
        main.query().close()
        main.ingest([("+", name(5, strings=False), name(3, strings=False))])
        answer = main.query()
        assert answer.statistics["start"] == "warm"
        edges[5, 3] = 0
        scratch = run(Total, graph_of(edges, **options), backend=f"{url}-scratch")
        assert (rows_of(answer) == rows_of(scratch)) is not mutant
