"""The programs, and their right answers by the plainest NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

from benchmarks.graphs import BenchGraph

Values = npt.NDArray[Any]

HERE = Path(__file__).parent
FILES = {"ours": "ours.py", "graphx": "graphx.scala", "graphframes": "graphframes.py"}
ERROR = 1e-9  # relative, of each value: whole numbers below 1e9 have to be exact
_ROUNDS = 10
_CORE = 10


@dataclass(frozen=True, slots=True)
class Ported:
    """One folder.

    Attributes:
        name: of the folder.
        title, source: what it finds, and where users have it from.
        scala: the object in `graphx.scala`.
        origin: whether it takes a vertex to begin with.
        answer: float64[n] from compact (source, target, value, n, origin, ids).
    """

    name: str
    title: str
    source: str
    scala: str
    answer: Callable[..., Values]
    origin: bool = False

    def file(self, system: str) -> Path:
        """The program as one system has it."""
        return HERE / self.name / FILES[system]


def _columns(graph: BenchGraph) -> tuple[npt.NDArray[np.int64], ...]:
    table = pq.read_table(graph.parquet)
    ids = np.asarray(graph.answer("ids"))
    source, target, value = (table[name].to_numpy() for name in table.column_names[:3])
    return np.searchsorted(ids, source), np.searchsorted(ids, target), value, ids


def _sum(at: Values, weights: Values, n: int) -> Values:
    total: Values = np.bincount(at, weights=weights, minlength=n)
    return total


def _older_followers(source: Values, target: Values, n: int, ids: Values, **_: object) -> Values:
    older = ids[source] > ids[target]
    count = np.bincount(target[older], minlength=n)
    total = _sum(target[older], ids[source[older]].astype(float), n)
    return np.where(count > 0, total / np.maximum(count, 1), 0.0)


def _pagerank(source: Values, target: Values, n: int, **_: object) -> Values:
    degree = np.maximum(np.bincount(source, minlength=n), 1)
    rank: Values = np.full(n, 0.15)
    for _round in range(_ROUNDS):
        rank = 0.15 + 0.85 * _sum(target, (rank / degree)[source], n)
    return rank


def _heat(source: Values, target: Values, n: int, origin: int, **_: object) -> Values:
    count = np.bincount(target, minlength=n)
    heat = np.zeros(n)
    heat[origin] = 100.0
    for _round in range(_ROUNDS):
        mean = _sum(target, heat[source], n) / np.maximum(count, 1)
        heat = np.where(count > 0, (heat + mean) / 2, heat)
        heat[origin] = 100.0
    return heat


def _two_hops(source: Values, target: Values, n: int, **_: object) -> Values:
    return _sum(target, np.bincount(target, minlength=n)[source].astype(float), n)


def _pruning(source: Values, target: Values, n: int, **_: object) -> Values:
    inside, before = np.ones(n, bool), -1
    while inside.sum() != before:
        before = int(inside.sum())
        there = inside[source] & inside[target]
        ends = np.concatenate((source[there], target[there]))
        inside &= np.bincount(ends, minlength=n) >= _CORE
    return inside.astype(float)


def right(program: Ported, graph: BenchGraph) -> Values:
    """The answer that every system must give: float64[n] in the order of the graph's ids."""
    if program.name == "shortest_paths":
        return graph.answer("shortest_paths")
    if program.name == "components":
        return np.asarray(graph.answer("ids"))[np.asarray(graph.answer("components"))]
    source, target, _, ids = _columns(graph)
    origin = int(np.searchsorted(ids, graph.origin))
    return program.answer(source=source, target=target, n=ids.size, ids=ids, origin=origin)


def wrong(wanted: Values, all_ids: Values, ids: Values, value: Values) -> str | None:
    """How an answer differs from the right one; None where it does not.

    Vertices that nothing was sent to may be left out, as aggregateMessages does: they count as 0.
    """
    place = np.minimum(np.searchsorted(all_ids, ids), all_ids.size - 1)
    if np.unique(ids).size != ids.size or not np.array_equal(all_ids[place], ids):
        return "its vertices are not the graph's"
    found = np.zeros(all_ids.size)
    found[place] = value
    count = int((~np.isclose(found, wanted, rtol=ERROR, atol=0.0)).sum())
    return f"{count} of {all_ids.size} values differ" if count else None


def _given(**_: object) -> Values:
    raise AssertionError("the graph has this answer")


_GUIDE = "GraphX programming guide"
PROGRAMS: dict[str, Ported] = {
    program.name: program
    for program in (
        Ported("shortest_paths", "single-source shortest paths by Pregel",
               f"{_GUIDE}, Pregel API", "ShortestPaths", _given, origin=True),
        Ported("older_followers", "average age of older followers by aggregateMessages",
               f"{_GUIDE}, aggregateMessages", "OlderFollowers", _older_followers),
        Ported("pagerank", "PageRank by Pregel, 10 iterations",
               "GraphFrames' documentation of Pregel", "PageRank", _pagerank),
        Ported("components", "connected components by Pregel",
               "GraphX's own library", "Components", _given),
        Ported("heat", "heat spreading from one vertex, 10 steps, by Pregel",
               "written for this table", "Heat", _heat, origin=True),
        Ported("two_hops", "followers of followers by aggregateMessages",
               "written for this table", "TwoHops", _two_hops),
        Ported("pruning", "10-core by leaving out vertices of small degree",
               "written for this table, with subgraph and degrees", "Pruning", _pruning),
    )
}  # fmt: skip
"""By name."""
