"""The arrays of one partition at one version: state columns, messages, aggregates, pending work.

A version is immutable once saved: a hop loads version v, works on copies, and saves v + 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.delivery import filled, message_count
from vertexsdk.compile.plan import Plan
from vertexsdk.graph.topology.target_rows import TargetRows
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.fields import StateField

Array = NDArray[Any]


_ARRAYS = ("msg", "agg", "pending", "created", "moved", "producers", "gathered", "level")


@dataclass
class VertexArrays:
    """The mutable arrays of one partition while a hop works on them.

    `states` has a column per state field ((n,) or (n, k)); `msg` the latest message per vertex
    or per edge, then per inbound ghost; `agg` the aggregate per slot (none for Latest).
    `pending` are the vertices (int32, ascending) which gather in the next iteration, where their
    aggregate is not the one in `gathered` by then.
    """

    topology: Topology
    states: dict[str, Array]
    msg: Array
    agg: Array
    pending: Array
    tracked: dict[str, Array] = field(default_factory=dict)
    once: dict[int, Any] = field(default_factory=dict)  # one-shot messages by local vertex
    extra: dict[str, Any] = field(default_factory=dict)  # what the events level keeps
    all_pending: bool = True
    created: Array = field(default_factory=lambda: np.empty(0, np.int32))  # not yet initialised
    moved: Array = field(default_factory=lambda: np.empty(0, np.int32))  # to scatter once more
    producers: Array | None = None  # Latest: ids behind inbound ghosts
    gathered: Array | None = None  # per slot, the aggregate last gathered, or sent by a ghost
    level: Array | None = None  # int32: where values are trimmed, when each last changed
    reach: TargetRows | None = None  # where methods read them, and the graph is divided

    @classmethod
    def fresh(cls, topology: Topology, plan: Plan) -> VertexArrays:
        """Return the arrays of a loop that has not started.

        Fields are at their defaults, where the plan has no vertex attributes for them.
        """
        states = {name: default_column(topology.n, f) for name, f in plan.program.states().items()}
        plan.fill(states, topology.ids)
        algebra = plan.program.algebra
        if algebra is None:
            msg = agg = np.empty(0, object)
        else:
            base = message_count(topology, plan.shape)
            msg = filled(base + len(topology.inbound), algebra)
            slots = 0 if algebra.kind == "latest" else topology.n + topology.ghosts
            agg = filled(slots, algebra)
        last_scattered = {k: v.copy() for k, v in states.items()} if plan.tracked else {}
        return cls(
            topology, states, msg, agg, np.arange(topology.n, dtype=np.int32), last_scattered
        )

    def to_columns(self, algebra: Algebra | None) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the version's arrays by name, and the rest as values for JSON."""
        columns = {f"state.{k}": v for k, v in self.states.items()}
        columns |= {f"tracked.{k}": v for k, v in self.tracked.items()}
        columns |= {k: x for k in _ARRAYS if (x := getattr(self, k)) is not None}
        if self.reach is not None:
            columns |= {f"reach.{k}": x for k, x in self.reach.to_columns().items()}
        if self.once and algebra is not None:
            columns["once.vertex"] = np.array(list(self.once), np.int32)
            values = filled(len(self.once), algebra)
            for k, value in enumerate(self.once.values()):
                values[k] = value
            columns["once.value"] = values
        return columns, {"all_pending": self.all_pending}

    @classmethod
    def from_columns(
        cls, topology: Topology, columns: Mapping[str, Array], meta: Mapping[str, Any]
    ) -> VertexArrays:
        """Build the vertices from what `to_columns` returned, with copies that may be written."""
        part = {
            prefix: {
                k[len(prefix) + 1 :]: v.copy() for k, v in columns.items() if k.startswith(prefix)
            }
            for prefix in ("state", "tracked")
        }
        arrays: dict[str, Any] = {k: columns[k].copy() for k in _ARRAYS if k in columns}
        once: dict[int, Any] = {}
        if "once.vertex" in columns:
            values = columns["once.value"]
            once = {int(v): values[k] for k, v in enumerate(columns["once.vertex"])}
        reach = None
        if "reach.start" in columns:
            reach = TargetRows.frozen(
                **{k.removeprefix("reach."): v for k, v in columns.items() if k[:6] == "reach."}
            )
        return cls(
            topology,
            part["state"],
            reach=reach,
            tracked=part["tracked"],
            once=once,
            all_pending=bool(meta["all_pending"]),
            **arrays,
        )


def default_column(n: int, f: StateField) -> Array:
    """Return a column of n vertices at the field's default."""
    if f.dtype.kind in "bi" and not np.any(f.default):
        return np.zeros((n, *f.shape), f.dtype)  # pages that are not written to take no memory
    column: Array = np.empty((n, *f.shape), f.dtype)
    if f.dtype == object:
        for k in range(n):
            column[k] = deepcopy(f.default)  # a vertex may change its own
    else:
        column[...] = f.default
    return column
