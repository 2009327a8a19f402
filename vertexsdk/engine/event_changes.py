"""Changes of edges as deltas for the vertices of one partition: ADD_TARGET and REMOVE_TARGET."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.id_hash import key_groups, owner_of_groups
from vertexsdk.arrays.packed_strings import pack_strings
from vertexsdk.engine._node import Node
from vertexsdk.graph.changes.changes import ADD, COUNTS, REMOVE
from vertexsdk.graph.changes.deltas import Deltas
from vertexsdk.graph.topology.edge_attributes import is_left_out
from vertexsdk.program.vertex import ADD_TARGET, REMOVE_TARGET
from vertexsdk.state.reading import name_groups


@dataclass(frozen=True)
class EventBatch:
    """Changes as the tasks take them: ids and values are Python's, int or str, int or float.

    A change without a value has None; a new edge then has `default`.
    """

    kind: list[int]
    source: list[Any]
    target: list[Any]
    value: list[Any]
    default: int | float
    deltas: Deltas  # for the order, and what was sent

    @classmethod
    def of_columns(
        cls, columns: Mapping[str, NDArray[Any]], names: Mapping[int, str] | None, value: str | None
    ) -> EventBatch:
        """Take a batch.

        Args:
            columns: as those of `LoopPartition.take`.
            names: names of the codes of string ids; None where ids are integers.
            value: dtype of the edge values which the program reads, if it does.
        """
        kind, values = columns["kind"].tolist(), list[Any]()
        if value is not None:
            left_out = is_left_out(columns["value"])
            given = np.where(left_out, 1, columns["value"]).astype(value).astype(object)
            given[left_out] = None
            values = given.tolist()
        source, target = (columns[name].tolist() for name in ("source", "target"))
        if names is not None:
            source, target = ([names[code] for code in ids] for ids in (source, target))
        slim = Deltas(columns["kind"], pa.nulls(0), pa.nulls(0), np.empty(0))
        if "sent" in columns:
            slim = Deltas.with_sent(slim, columns)
        default = 1.0 if value == "float64" else 1
        return cls(kind, source, target, values or [None] * len(kind), default, slim)


@dataclass(slots=True)
class AppliedChanges:
    """The outcome of a batch in one partition; `effects` counts the deltas it made."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    absent: list[int] = field(default_factory=list)
    effects: int = 0


def places(ids: Sequence[Any], partitions: int) -> list[int]:
    """The partition which owns the key group of each id, an integer or a string."""
    if partitions == 1 or not ids:
        return [0] * len(ids)
    if isinstance(ids[0], str):
        groups = name_groups(*pack_strings(ids))
    else:
        groups = key_groups(np.array(ids, np.int64))
    owners: list[int] = owner_of_groups(groups, partitions).tolist()
    return owners


def row_of(node: Node, direction: str) -> dict[Any, Any]:
    """The targets of a vertex, with edge values, that its edges give it, ascending.

    Where a pair is joined both ways, `direction = "both"` has the value of the edge that comes
    in; "undirected" that of the edge from the smaller id.
    """
    ids = {"out": node.out, "in": node.into}.get(direction) or {}
    if direction in ("both", "undirected"):
        ids = node.out | node.into
    values = ((k, value_at(node, direction, k)) for k in sorted(ids))
    return {k: x for k, x in values if x is not None}


def value_at(node: Node, direction: str, target: Any) -> Any:
    """Return the value that a vertex's edges give one target; None if it is not a target."""
    out, into = node.out.get(target), node.into.get(target)
    if direction == "out":
        return out
    if direction == "in":
        return into
    if direction == "undirected" and target == node.id:
        return None
    if out is None or into is None:
        return into if out is None else out
    return out if direction == "undirected" and node.id < target else into


def apply_change(edges: dict[Any, Any], kind: int, target: Any, value: Any, default: Any) -> str:
    """Change one of a vertex's edges; return which of `COUNTS` it was."""
    old = edges.get(target)
    if old is None:
        if kind != ADD:
            return "absent"
        edges[target] = default if value is None else value
        return "added"
    if kind == REMOVE:
        del edges[target]
        return "removed"
    if value is None or old == value:
        return "unchanged"
    edges[target] = value
    return "changed"


def letter_of(node: Node, target: Any, previous: Any, after: Any) -> Any:
    """The delta by which a vertex learns of a change of its row; None where there is none."""
    if previous == after:
        return None
    if after is None:
        return (node.id, REMOVE_TARGET, target, None)
    return (node.id, ADD_TARGET, target, after)
