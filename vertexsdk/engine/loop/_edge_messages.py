"""Messages along edges that come and go, and who stands on a message: uniform and derived shapes.

Where messages are uniform each vertex has the one that it sent; where they are derived, they
follow from the state at the last scatter and the edge's value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.delivery import Delivery, filled
from vertexsdk.compile.methods import Methods
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.engine.loop._row_edits import Edits, distinct
from vertexsdk.engine.loop._row_kernels import DELETE, INSERT

Array = NDArray[Any]


class EdgeMessages:
    """What the edges of one partition carry, in the program's shape of messages."""

    def __init__(self, shape: str, methods: Methods, delivery: Delivery) -> None:
        self.derived = shape == "derived"
        self.methods, self.delivery = methods, delivery

    def along(self, v: VertexArrays, edits: Edits) -> tuple[Array, Array]:
        """What edges carried before edits of out-rows, and after; their sources have sent."""
        d = self.delivery
        old, new = filled(len(edits), d.algebra), filled(len(edits), d.algebra)
        before, after = edits.what != INSERT, edits.what != DELETE
        if not self.derived:
            before &= edits.what == DELETE  # a value is not read
            after &= edits.what == INSERT
        old[before] = self._edge_messages(v, edits.where(before), edits.old[before])
        new[after] = self._edge_messages(v, edits.where(after), edits.new[after])
        return old, new

    def deliver(
        self, v: VertexArrays, edits: Edits, old: Array, new: Array, seen: Array | None
    ) -> Array:
        """Have aggregates follow edits, of which edges carried `old`, and carry `new`.

        Args:
            seen: the aggregate which the state of each vertex was computed from, or None.

        Returns:
            Targets (int32, ascending) which lost a message that was no worse than what they saw.
        """
        d = self.delivery
        d.module.apply_each(edits.key, old, new, v.agg, d.ch, d.list, d.counts)
        if seen is None:
            return edits.key[:0]
        want = seen[edits.key]
        lesser = np.minimum if d.algebra.kind == "min" else np.maximum
        lost = (
            (edits.what != INSERT)
            & (old != new)
            & (lesser(old, want) == old)
            & (lesser(old, new) == old)
        )
        return distinct(edits.key[lost], v.topology.n)

    def _edge_messages(self, v: VertexArrays, edits: Edits, values: Array) -> Array:
        """The messages along edges with these values."""
        if not self.derived:
            return v.msg[edits.row]
        given = None if v.topology.value is None else values
        return self.methods.offers(v, edits.row, edits.key, given)

    def support(self, v: VertexArrays, want: Array, todo: Array, gone: Array) -> Array:
        """What producers of lower levels, which are not gone, give to each of `todo`."""
        d, t = self.delivery, v.topology
        if self.derived:
            return self.methods.support(v, todo, gone, want)
        out = np.empty(len(todo), v.agg.dtype)
        d.module.support(
            todo, t.in_start, t.in_stop, t.in_source, v.level, gone, want, d.algebra.identity, out,
            t.start, t.stop, t.target, v.msg,
        )  # fmt: skip
        return out

    def dependants(self, v: VertexArrays, vertices: Array, seen: Array, mark: Array) -> Array:
        """Targets not marked to which `vertices` sent nothing worse than they saw; marks them."""
        d, t = self.delivery, v.topology
        if self.derived:
            return self.methods.dependants(v, vertices, seen, mark)
        out = np.empty(len(mark), np.int32)
        return out[
            : d.module.dependants(vertices, seen, mark, out, t.start, t.stop, t.target, v.msg)
        ]
