"""An events loop in the store, to be gone on with by another process: its edges and its vertices.

Edges are segments of kind "topology" like those of every loop (see `checkpoint`): an events
program may have been told more than its edges, so its vertices stand beside them, in group
"nodes": what each holds, and what is on its way to it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.events._events_partition import PICKLED, EventPartition
from vertexsdk.state import SegmentRef, Store, open_store
from vertexsdk.state.address import Address
from vertexsdk.state.stored_pickles import unpickle

NODES = "nodes"
_OWNERS = "owners_of_key_groups"  # so many partitions; older stores placed by another hash


@dataclass(frozen=True)
class Position:
    """How far a loop has come.

    Attributes:
        iteration: the next one to run.
        since: the one that was next when something came in last.
        aggregates: what aggregators read last.
        reason: why iterations ended; None if there is more to do.
        wake: every vertex is to scatter once.
    """

    iteration: int = 0
    since: int = 0
    aggregates: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    wake: bool = False


def put_checkpoint(
    part: EventPartition,
    store: Store,
    loop: str,
    position: Position,
    code: Callable[[Any], int] | None,
) -> list[SegmentRef]:
    """Write one partition; `code` gives the codes of string ids."""
    at = part.partition, max(position.iteration - 1, 0)
    value = part.plan.program.value_dtype
    rows = [
        (i, t, x)
        for i in sorted(part.nodes)
        for t, x in sorted(part.nodes.peek(i).out.items())
        if not part.undirected or i <= t
    ]
    columns: dict[str, NDArray[Any]] = {}
    for k, name in enumerate(("source", "target")):
        ids = [row[k] if code is None else code(row[k]) for row in rows]
        columns[name] = np.array(ids, np.int64)
    if value is not None:
        columns["value"] = np.array([x for _, _, x in rows], value)
    nodes = {i: part.nodes.peek(i) for i in part.nodes}
    content = (nodes, part.mail, part.fresh, part.unborn, position)
    pickled = {"pickle": np.frombuffer(pickle.dumps(content, 5), np.uint8)}
    placed = {_OWNERS: part.partitions}
    return [
        store.put_segment(loop, *at, "topology", columns),
        store.put_segment(loop, *at, "topology", pickled, placed, group=NODES),
    ]


def restore(part: EventPartition, address: str | Address, refs: Sequence[SegmentRef]) -> Position:
    """Fill a partition from a checkpoint of any number of them; return how far the loop was.

    Of one with as many partitions, placed by key groups, only this partition's segment is read.
    """
    position = Position()
    with open_store(address, create=False) as store:
        for ref in refs:
            alike = store.table(ref).meta.get(_OWNERS) == part.partitions
            if alike and ref.key.partition != part.partition:
                continue
            columns = store.segment(ref)
            with store.naming_segment(ref):
                pickled = columns["pickle"].tobytes()
                *content, stored = unpickle(pickled, *PICKLED, Position)
                position = Position(*(getattr(stored, n) for n in Position.__dataclass_fields__))
                part.take_over(*content)
    return position
