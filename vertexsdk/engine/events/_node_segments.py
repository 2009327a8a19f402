"""An events loop in the store, to be gone on with by another process: its edges and its vertices.

Edges are segments of kind "topology" like those of every loop (see `checkpoint`): an events
program may have been told more than its edges, so its vertices stand beside them, in group
"nodes": what each holds, and what is on its way to it.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.graph.string_ids import StringIds
from vertexsdk.state import SegmentRef, Store, open_store
from vertexsdk.state.address import Address
from vertexsdk.state.stored_pickles import unpickle

if TYPE_CHECKING:
    from vertexsdk.engine.events._events_partition import EventPartition

NODES = "nodes"


def put_checkpoint(
    part: EventPartition,
    store: Store,
    loop: str,
    at: tuple[int, int],
    names: StringIds | None,
    remember: Any,
) -> list[SegmentRef]:
    """Write one partition; `at` is its number and the iteration. Called in its task."""
    value = part.plan.program.value_dtype
    rows = [
        (i, t, x)
        for i in sorted(part.nodes)
        for t, x in sorted(part.nodes.peek(i).out.items())
        if not part.undirected or i <= t
    ]
    ends = [_codes([row[k] for row in rows], names) for k in range(2)]
    columns: dict[str, NDArray[Any]] = {"source": ends[0], "target": ends[1]}
    if value is not None:
        columns["value"] = np.array([x for _, _, x in rows], value)
    nodes = {i: part.nodes.peek(i) for i in part.nodes}
    held = (nodes, part.mail, part.fresh, part.unborn, remember)
    pickled = {"pickle": np.frombuffer(pickle.dumps(held, 5), np.uint8)}
    return [
        store.put_segment(loop, *at, "topology", columns),
        store.put_segment(loop, *at, "topology", pickled, group=NODES),
    ]


def restore(part: EventPartition, address: str | Address, refs: Sequence[SegmentRef]) -> Any:
    """Fill a partition from a checkpoint of any number of them; return what was remembered."""
    alike = {ref.key.partition for ref in refs} == set(range(part.partitions))
    remembered: Any = None
    with open_store(address, create=False) as store:
        for ref in refs:
            if alike and ref.key.partition != part.partition:
                continue
            columns = store.segment(ref)
            nodes, mail, fresh, unborn, remembered = unpickle(columns["pickle"].tobytes())
            ids = list({*nodes, *mail})
            mine = {i for i, p in zip(ids, part.place(ids), strict=True) if p == part.partition}
            for i in mine & nodes.keys():
                node = part.nodes[i] = nodes[i]
                part.count += node.present
                part.edges += part.counted(node)
            part.mail |= {i: mail[i] for i in mine & mail.keys()}
            part.fresh |= fresh & mine
            part.unborn |= unborn & mine
    return remembered


def _codes(ids: list[Any], names: StringIds | None) -> NDArray[np.int64]:
    return np.array(ids, np.int64) if names is None else names.find(ids)
