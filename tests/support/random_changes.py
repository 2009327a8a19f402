"""Batches of changes drawn at random, as streams of real graphs have them at their worst.

A batch names some edges several times, an edge without direction by both spellings, self-loops,
edges that are not there, and edges without a value.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

__all__ = ["Edges", "Row", "applied", "key_of", "random_rows", "turned"]

Edges = dict[tuple[Any, Any], float]
Row = tuple[Any, ...]


def key_of(source: Any, target: Any, *, undirected: bool) -> tuple[Any, Any]:
    """How a dictionary of edges names an edge."""
    return (target, source) if undirected and target < source else (source, target)


def applied(edges: Edges, rows: Sequence[Row], *, undirected: bool) -> Edges:
    """The edges after the changes: an oracle of what a loop has to make of them."""
    after = dict(edges)
    for sign, source, target, *value in rows:
        key = key_of(source, target, undirected=undirected)
        if sign == "-":
            after.pop(key, None)
        elif sign == "+" or key in after:
            after[key] = float(value[0]) if value else after.get(key, 1.0)
    return after


def random_rows(
    rng: random.Random,
    edges: Edges,
    number: int,
    *,
    undirected: bool,
    vertices: Sequence[Any] = range(12),
    values: Sequence[float] = range(1, 10),
) -> list[Row]:
    """Draw changes of `edges`, and make them there.

    Args:
        edges: `{(source, target): value}`; if `undirected` by `key_of`.
        number: of changes.
        vertices: whom they may join.
        values: of edges.
    """
    rows: list[Row] = []
    for _ in range(number):
        sign, source, target = rng.choice("++--~"), rng.choice(vertices), rng.choice(vertices)
        if rows and rng.random() < 0.4:
            _, source, target, *_ = rng.choice(rows)  # again an edge of this batch
        elif sign != "+" and edges and rng.random() < 0.8:
            source, target = rng.choice(sorted(edges))
        if undirected and rng.random() < 0.5:
            source, target = target, source
        none = sign == "-" or (sign == "+" and rng.random() < 0.25)
        value = [] if none else [float(rng.choice(values))]
        rows.append((sign, source, target, *value))
    after = applied(edges, rows, undirected=undirected)
    edges.clear()
    edges.update(after)
    return rows


def turned(rng: random.Random, rows: Sequence[Row]) -> list[Row]:
    """The same changes of an undirected graph, some of them with the edge spelled backwards."""
    return [
        (sign, b, a, *value) if rng.random() < 0.5 else (sign, a, b, *value)
        for sign, a, b, *value in rows
    ]
