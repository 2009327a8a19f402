"""Vertices as columns that can leave their partition: state, edges, messages, what is pending."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.processor import Processor
from vertexsdk.strings import take_strings

__all__ = ["MovedRows", "joined", "taken"]

Array = NDArray[Any]

_PENDING, _CREATED, _MOVED = 1, 2, 4
_EDGE = ("target", "value", "reverse", "edge.msg")  # an entry per edge
_APART = ("told.from", "told.target", "told.source", "name.offsets", "name.bytes")
_ONCE = ("once.row", "once.value")


def taken(processor: Processor, rows: Array) -> dict[str, Array]:
    """Return all there is of local vertices `rows` (ascending)."""
    v, t = processor.v, processor.v.topology
    degree = t.stop[rows] - t.start[rows]
    edges = _ranges(t.start[rows], degree)
    flags = np.zeros(t.n, np.uint8)
    flags[v.pending] |= _PENDING
    if v.all_pending:
        flags |= _PENDING
    flags[v.created] |= _CREATED
    flags[v.moved] |= _MOVED
    columns = {
        "id": t.ids[rows],
        "degree": degree,
        "flags": flags[rows],
        "target": np.concatenate([t.ids, t.ghost_ids])[t.target[edges]],
    }
    for name, of_vertex in (("kind", t.kind), ("level", v.level)):
        if of_vertex is not None:
            columns[name] = of_vertex[rows]
    for name, of_edge in (("value", t.value), ("reverse", t.reverse)):
        if of_edge is not None:
            columns[name] = of_edge[edges]
    columns |= {f"state.{name}": x[rows] for name, x in v.states.items()}
    columns |= {f"tracked.{name}": x[rows] for name, x in v.tracked.items()}
    if processor.plan.shape == "uniform":
        columns["msg"] = v.msg[rows]
    elif processor.plan.shape != "derived":
        columns["edge.msg"] = v.msg[edges]
    once = np.array([k for k in v.once if k in set(rows.tolist())], np.int64)
    if len(once):
        values = np.empty((len(once), *v.msg.shape[1:]), v.msg.dtype)
        for k, vertex in enumerate(once.tolist()):
            values[k] = v.once[vertex]
        columns["once.row"], columns["once.value"] = np.searchsorted(rows, once), values
    if t.names is not None:
        columns["name.offsets"], columns["name.bytes"] = take_strings(*t.names, rows)
    return columns


@dataclass
class MovedRows:
    """The vertices that a partition will have, ascending; columns as `taken` names them."""

    columns: dict[str, Array]
    names: tuple[Array, Array] | None

    def fill(self, processor: Processor) -> None:
        """Put them into a processor whose topology was made of them."""
        v, columns = processor.v, self.columns
        for name in v.states:
            v.states[name][...] = columns[f"state.{name}"]
        for name in v.tracked:
            v.tracked[name][...] = columns[f"tracked.{name}"]
        own = columns.get("msg", columns.get("edge.msg"))
        if own is not None:
            v.msg[: len(own)] = own
        if "level" in columns:
            v.level = columns["level"]
        flags = columns["flags"]
        v.all_pending = False
        v.pending, v.created, v.moved = (
            np.flatnonzero(flags & bit).astype(np.int32) for bit in (_PENDING, _CREATED, _MOVED)
        )
        once = columns.get("once.row", np.empty(0, np.int64)).tolist()
        v.once = {row: columns["once.value"][k] for k, row in enumerate(once)}


def joined(parts: Sequence[dict[str, Array]]) -> MovedRows:
    """Bring together what stays and what came, in the order of ids."""
    ids = np.concatenate([p["id"] for p in parts])
    order = np.argsort(ids)
    degree = np.concatenate([p["degree"] for p in parts])
    before = np.cumsum(degree) - degree
    edges = _ranges(before[order], degree[order])
    columns: dict[str, Array] = {}
    for name in parts[0].keys() - {*_APART, *_ONCE}:
        whole = np.concatenate([p[name] for p in parts])
        columns[name] = whole[edges if name in _EDGE else order]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first = np.cumsum([0, *(len(p["id"]) for p in parts)])
    once = [(first[k] + p["once.row"], p["once.value"]) for k, p in enumerate(parts) if _has(p)]
    if once:
        columns["once.row"] = place[np.concatenate([rows for rows, _ in once])]
        columns["once.value"] = np.concatenate([values for _, values in once])
    names = None
    if "name.offsets" in parts[0]:
        sizes = np.concatenate([np.diff(p["name.offsets"]) for p in parts])
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        names = take_strings(offsets, np.concatenate([p["name.bytes"] for p in parts]), order)
    return MovedRows(columns, names)


def _has(part: dict[str, Array]) -> bool:
    return "once.row" in part


def _ranges(first: Array, count: Array) -> Array:
    """The integers from `first[k]`, `count[k]` of them, for every k in turn."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    found: Array = np.arange(total) + np.repeat(first - (ends - count), count)
    return found
