"""Whether the arrays of a stored partition fit its graph, as kernels do not look."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.delivery import message_count
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.program.algebra import Algebra
from vertexsdk.state import CorruptError

Array = NDArray[Any]


def check_arrays(v: VertexArrays, shape: str, algebra: Algebra) -> None:
    """Refuse arrays that kernels would read or write beyond their ends.

    Args:
        shape: the message layout.
        algebra: of the messages.

    Raises:
        CorruptError: a length does not fit the graph, or an index is out of range.
    """
    t = v.topology
    n, slots = t.n, t.n + t.ghosts
    lengths = {
        **dict.fromkeys([*v.states, *v.tracked], n),
        "msg": message_count(t, shape) + len(t.inbound),
        "agg": 0 if algebra.kind == "latest" else slots,
    }
    columns = {**v.states, **v.tracked, "msg": v.msg, "agg": v.agg}
    optional = {"gathered": lengths["agg"], "producers": len(t.inbound), "level": n}
    for name, length in optional.items():
        if getattr(v, name) is not None:
            columns[name], lengths[name] = getattr(v, name), length
    for name, column in columns.items():
        _require(len(column) == lengths[name], name)
    once = np.fromiter(v.once, np.int64, len(v.once))
    for name, places in [
        ("pending", v.pending), ("created", v.created), ("moved", v.moved), ("once", once),
        ("inbound", t.inbound),
    ]:  # fmt: skip
        _require(_within(places, n), name)
    for name, starts, end in [
        ("start", t.start, t.m),
        ("in_start", t.in_start, len(t.in_source)),
        ("ghost_start", t.ghost_start, t.ghosts),
        ("inbound_start", t.inbound_start, len(t.inbound)),
    ]:  # fmt: skip
        rises = len(starts) > 0 and starts[0] == 0 and starts[-1] == end
        _require(bool(rises and (starts[1:] >= starts[:-1]).all()), name)
    _require((len(t.start), len(t.in_start)) == (n + 1, slots + 1), "start")
    _require(_within(t.target, slots), "target")
    _require(_within(t.in_source, n + len(t.inbound)), "in_source")
    per_graph = {"value": t.m, "reverse": t.m, "kind": n, "producers": len(t.inbound),
                 "in_order": len(t.in_source), "inbound_order": len(t.inbound)}  # fmt: skip
    for name, column in t.to_columns()[0].items():
        _require(len(column) == per_graph.get(name, len(column)), name)
    _require(t.in_order is None or _within(t.in_order, n + len(t.inbound)), "in_order")
    _require(t.inbound_order is None or _within(t.inbound_order, len(t.inbound)), "inbound_order")
    if (rows := v.reach) is not None:
        whole = len(rows.start) == len(rows.stop) >= slots
        _require(whole and bool((rows.start <= rows.stop).all()), "reach.start")
        _require(_within(rows.start, len(rows.target) + 1), "reach.start")
        _require(_within(rows.stop, len(rows.target) + 1), "reach.stop")
        _require(_within(rows.target, n + rows.size), "reach.target")


def _within(places: Array, end: int) -> bool:
    return len(places) == 0 or bool(places.min() >= 0 and places.max() < end)


def _require(fine: bool, name: str) -> None:
    if not fine:
        raise CorruptError(f"the snapshot's array {name!r} does not fit the graph")
