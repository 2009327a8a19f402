"""The rows of a small graph, by the rules of loading: which edges count, who is whose target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Edge", "adjacency"]

NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "<nothing>"})()


@dataclass(eq=False)
class Edge:
    """One target of a vertex, and the latest message sent along it."""

    id: Any
    value: Any = 1
    reverse: bool = False
    message: Any = NOTHING
    fresh: list[Any] = field(default_factory=list)  # sent in the scatter which is running


def adjacency(
    edges: Iterable[Sequence[Any]],
    vertices: Iterable[Any] = (),
    direction: str = "out",
    *,
    undirected: bool = False,
    multi: bool = False,
) -> dict[Any, list[Edge]]:
    """Return the targets of every vertex, ascending by (id, reverse).

    Args:
        edges: (source, target) or (source, target, value); of duplicates the last counts.
        vertices: ids, for vertices with no edges.
        direction: "out", "in", "both" (each edge both ways, the second flagged `reverse`), or
            "undirected" (neighbours as a set, without the vertex itself).
        undirected: every given edge stands for both directions; a pair is kept once.
        multi: keep duplicates.

    >>> adjacency([(1, 2), (2, 1), (2, 2)], direction="undirected")[2][0].id
    1
    """
    given = [(*edge, 1)[:3] for edge in edges]
    rows: dict[Any, list[Edge]] = {v: [] for v in vertices}
    for source, target, _ in given:
        rows.setdefault(source, [])
        rows.setdefault(target, [])
    as_set = direction == "undirected"
    if as_set and not undirected:  # the value of the edge from the smaller id counts
        given.sort(key=lambda edge: edge[0] < edge[1])
    if undirected or as_set:
        pairs = [(min(s, t), max(s, t), x) for s, t, x in given if s != t or not as_set]
        kept = pairs if multi and not as_set else _last(pairs)
        for source, target, value in kept:
            rows[source].append(Edge(target, value))
            if source != target:
                rows[target].append(Edge(source, value))
    else:
        for source, target, value in given if multi else _last(given):
            if direction in ("out", "both"):
                rows[source].append(Edge(target, value))
            if direction in ("in", "both"):
                rows[target].append(Edge(source, value, direction == "both"))
    for row in rows.values():
        row.sort(key=lambda e: (e.id, e.reverse))
    return rows


def _last(edges: list[tuple[Any, Any, Any]]) -> list[tuple[Any, Any, Any]]:
    return [(s, t, x) for (s, t), x in {(s, t): x for s, t, x in edges}.items()]
