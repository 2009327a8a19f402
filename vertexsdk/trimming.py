"""From an answer on the graph before to where a branch on the graph now may begin.

With Min and Max a vertex may hold a value which came along an edge that has gone, and vertices
on a cycle may support each other in it for ever. Every vertex has a *level*, the iteration in
which its value last changed: the producers that a value came from are of lower levels. So a value
stands if the messages of producers of lower levels still give it, and what stands is well founded.
What does not is withdrawn (`init`), and all that rested on it is looked at again.

The levels do the work of the dependence trees in Vora, Gupta and Xu, "KickStarter", ASPLOS 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.interpret import InterpretedMethods
from vertexsdk.compile.native import NativeMethods
from vertexsdk.delivery import Delivery
from vertexsdk.log import Log
from vertexsdk.vertices import Vertices

__all__ = ["kept_columns", "restored", "trim"]

Array = NDArray[Any]


def kept_columns(v: Vertices) -> dict[str, Array]:
    """What of a partition's answer a branch needs: ids, state, levels, aggregates."""
    columns = {f"state.{k}": x for k, x in v.states.items()}
    columns["id"] = v.topology.ids
    if v.level is not None:
        columns |= {"level": v.level, "agg": v.agg[: v.topology.n]}
    return columns


def restored(v: Vertices, kept: Mapping[str, Array]) -> tuple[Array, Array]:
    """Give the vertices the state they had; those that are new stay as they are.

    Returns:
        The new vertices (int32), and every vertex's aggregate before (empty where not kept).
    """
    ids, before = v.topology.ids, kept["id"]
    at = np.minimum(np.searchsorted(before, ids), max(len(before) - 1, 0))
    known = before[at] == ids if len(before) else np.zeros(len(ids), np.bool_)
    old = at[known]
    for name, column in v.states.items():
        column[known] = kept[f"state.{name}"][old]
    aggregates = v.agg[:0]
    if v.level is not None:
        aggregates = v.agg[: len(ids)].copy()  # the identity still
        aggregates[known] = kept["agg"][old]
        v.level[known] = kept["level"][old]
    return np.flatnonzero(~known).astype(np.int32), aggregates


def trim(
    v: Vertices,
    delivery: Delivery,
    methods: NativeMethods | InterpretedMethods,
    before: Array,
    level: int,
    log: Log,
) -> int:
    """Withdraw what is not well founded on the graph as it is now.

    Args:
        v: one partition, the only one, with the state of before.
        delivery: its messages and aggregates, all the identity.
        methods: of the program's only class.
        before: the aggregate of every vertex when its state was computed.
        level: of a vertex whose value is withdrawn.
        log: takes what methods log, which is nothing.

    Returns:
        The number of gathers.
    """
    assert v.level is not None
    t, algebra = v.topology, delivery.algebra
    everyone = np.arange(t.n, dtype=np.int32)
    methods.scatter(v, delivery, everyone, 0, {}, {}, log)
    delivery.finish(v.msg, v.agg)
    gone = np.zeros(t.n, np.bool_)
    todo, gathers = everyone, 0
    lesser = np.minimum if algebra.kind == "min" else np.maximum
    while len(todo):
        gathers += len(todo)
        found = np.empty(len(todo), v.agg.dtype)
        delivery.module.support(
            todo, t.in_start, t.in_stop, delivery.in_index, t.in_source, v.msg, v.level, gone,
            before, algebra.identity, found,
        )  # fmt: skip
        v.agg[todo] = found
        kept = {name: column[todo] for name, column in v.states.items()}
        changed = methods.gather(v, delivery, todo, 1, {}, {}, log)
        was = before[todo]
        better = (found != was) & (lesser(found, was) == found)
        for name, column in v.states.items():
            column[todo] = kept[name]  # a better value is taken in its iteration
        bad = changed[~better[np.searchsorted(todo, changed)]]
        gone[bad] = True
        v.level[bad] = level
        methods.init(v, bad, {}, {}, log)
        todo = _consumers(t.start, t.target, bad)
        todo = todo[~gone[todo]]
    methods.scatter(v, delivery, np.flatnonzero(gone).astype(np.int32), 0, {}, {}, log)
    delivery.finish(v.msg, v.agg)
    delivery.pull(v.msg, v.agg)  # with the messages of all levels
    return gathers


def _consumers(start: Array, target: Array, vertices: Array) -> Array:
    """The targets of some vertices, distinct and ascending (int32)."""
    lengths = start[1:][vertices] - start[:-1][vertices]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    found: Array = np.unique(target[np.repeat(start[:-1][vertices], lengths) + within])
    return found
