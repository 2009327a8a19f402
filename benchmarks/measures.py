"""What is measured, in the words of the tables, and how an answer is known to be right.

A `Measure` is a name that a system's class may have a method for. Its check compares the method's
answer with the graph's reference answer; a time is shown only when the check passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.graphs import BenchGraph

Columns = Mapping[str, npt.NDArray[np.generic]]
"""An answer: ``ids`` int64[n] in any order and ``value``, or numbers of its own for facts."""

Check = Callable[[BenchGraph, Columns], str | None]
"""Says what is wrong with an answer, None when nothing is."""

PAGERANK_ERROR = 1e-9  # relative L1
COEFFICIENT_ERROR = 1e-9


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the tables. ``load`` measures leave the graph ready for the others.

    ``most_edges``: it is offered for graphs up to that size, for it takes everybody too long on
    larger ones.
    """

    name: str
    title: str
    check: Check
    load: bool = False
    most_edges: int | None = None

    def offered(self, graph: BenchGraph) -> bool:
        """Whether it is done on a graph of this size."""
        return self.most_edges is None or graph.edges <= self.most_edges


def _aligned(graph: BenchGraph, answer: Columns) -> npt.NDArray[np.generic] | str:
    ids, value = np.asarray(answer["ids"]), np.asarray(answer["value"])
    order = np.argsort(ids, kind="stable")
    if not np.array_equal(ids[order], graph.answer("ids")):
        return f"its {ids.size} vertices are not the graph's {graph.vertices}"
    return value[order]


def _counts(graph: BenchGraph, answer: Columns) -> str | None:
    seen = int(answer["vertices"]), int(answer["edges"])
    if seen != (graph.vertices, graph.edges):
        return f"it has {seen[0]} vertices and {seen[1]} edges after loading"
    return None


def _ranks(graph: BenchGraph, answer: Columns) -> str | None:
    value = _aligned(graph, answer)
    if isinstance(value, str):
        return value
    # A peer with another definition names it; it is checked against that definition.
    name = "pagerank" + str(answer.get("definition", ""))
    limit = float(answer.get("error", PAGERANK_ERROR))
    right = graph.answer(name).astype(np.float64)
    error = float(np.abs(value.astype(np.float64) - right).sum() / right.sum())
    return None if error <= limit else f"relative L1 error {error:.1e} in {name}"


def _partition(graph: BenchGraph, answer: Columns) -> str | None:
    value = _aligned(graph, answer)
    if isinstance(value, str):
        return value
    # Name each component by its least vertex, whatever the system calls it.
    _, first, member = np.unique(value, return_index=True, return_inverse=True)
    wrong = int((first[member] != graph.answer("components")).sum())
    return f"{wrong} vertices are in another component" if wrong else None


def _exactly(name: str) -> Check:
    def check(graph: BenchGraph, answer: Columns) -> str | None:
        value = _aligned(graph, answer)
        if isinstance(value, str):
            return value
        wrong = int((value.astype(np.float64) != graph.answer(name)).sum())
        return f"{wrong} distances differ" if wrong else None

    return check


def _labels(graph: BenchGraph, answer: Columns) -> str | None:
    value = _aligned(graph, answer)
    if isinstance(value, str):
        return value
    # A community is named by the id of one of its vertices, the reference by its place.
    wrong = int((value != graph.answer("ids")[graph.answer("cdlp").astype(np.int64)]).sum())
    return f"{wrong} vertices are in another community" if wrong else None


def _coefficients(graph: BenchGraph, answer: Columns) -> str | None:
    value = _aligned(graph, answer)
    if isinstance(value, str):
        return value
    name = "lcc" + str(answer.get("definition", ""))
    right = graph.answer(name).astype(np.float64)
    wrong = int((np.abs(value.astype(np.float64) - right) > COEFFICIENT_ERROR).sum())
    return f"{wrong} coefficients differ in {name}" if wrong else None


def facts_only(graph: BenchGraph, answer: Columns) -> str | None:
    """Nothing to compare: the answer is a number of the system's own."""
    return None


MEASURES: tuple[Measure, ...] = (
    Measure("load_text", "load from text to ready", _counts, load=True),
    Measure("load_parquet", "load from Parquet to ready", _counts, load=True),
    Measure("pagerank", "PageRank, 10 iterations", _ranks),
    Measure("pagerank_converged", "PageRank to convergence", _ranks),
    Measure("components", "connected components", _partition),
    Measure("cdlp", "community detection, 10 iterations", _labels),
    Measure("lcc", "local clustering coefficient", _coefficients, most_edges=16 << 16),
    Measure("shortest_paths", "shortest paths", _exactly("shortest_paths")),
    Measure("bfs", "breadth-first search", _exactly("bfs")),
    Measure("interpreted", "interpreted PageRank", facts_only),
    Measure("hop", "fixed cost of a hop", facts_only),
    Measure("memory", "load and run for peak memory", facts_only),
)

BY_NAME = {measure.name: measure for measure in MEASURES}
