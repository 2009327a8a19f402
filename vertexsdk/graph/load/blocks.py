"""The blocks between the tasks of a load: edges, sorted rows, ghosts and faults, as bytes.

An edge goes to every partition in which it adds an entry to a row. A fault (bad input) travels as
data to partition 0 and on to the driver: Spark would run a task that raises again, to fail again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.errors import InputError
from vertexsdk.graph.load.adjacency_rows import BACKWARD, FORWARD, AdjacencyRows, Chunk
from vertexsdk.graph.load.build_topology import NO_GHOSTS, Inbound, LocalRows
from vertexsdk.graph.load.lines import NotIntegers
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.transport.transport import Block

_PIECE = 1 << 26  # bytes in a block


class Fault(Exception):
    """Bad input of a task.

    Args:
        order: the position in the input.
        error: the error to raise.
    """

    def __init__(self, order: tuple[int, int], error: InputError) -> None:
        super().__init__(order, error)
        self.order = order
        self.error = error


def fault_block(order: tuple[int, int], error: InputError) -> Block:
    """Return a block that reports bad input to partition 0."""
    meta = {"fault": str(error), "strings": isinstance(error, NotIntegers), "order": list(order)}
    return 0, encode_bytes({}, meta)


def _raise_fault(meta: dict[str, Any]) -> None:
    if "fault" in meta:
        kind = NotIntegers if meta["strings"] else InputError
        raise Fault(tuple(meta["order"]), kind(meta["fault"]))


@njit
def _spread(
    owner_of: NDArray[np.int32], other: NDArray[np.int32], place: NDArray[np.int64], both: bool
) -> NDArray[np.int32]:
    """Return edge numbers by destination, in order, each destination's from `place` on."""
    total = 0
    for i in range(len(owner_of)):
        total += 1 + (both and other[i] != owner_of[i])
    out = np.empty(total, np.int32)
    for i in range(len(owner_of)):
        out[place[owner_of[i]]] = i
        place[owner_of[i]] += 1
        if both and other[i] != owner_of[i]:
            out[place[other[i]]] = i
            place[other[i]] += 1
    return out


def edge_blocks(
    order: int, chunks: Iterable[Chunk], placement: Placement, mode: int
) -> Iterator[Block]:
    """Yield (destination, block) for the chunks of the split number `order`."""
    number = -1
    try:
        for chunk in chunks:
            for piece in _pieces(chunk):
                number += 1
                yield from _chunk_blocks(order, number, piece, placement, mode)
    except InputError as error:
        yield fault_block((order, number + 1), error)


def _pieces(chunk: Chunk) -> Iterator[Chunk]:
    """Cut a chunk, so that no block of it is longer than `_PIECE`."""
    columns = [a for a in (chunk.source, chunk.target, chunk.value) if a is not None]
    rows = max(1, _PIECE // max(1, sum(a[:1].nbytes for a in columns)))
    if len(chunk.source) <= rows:
        yield chunk
        return
    for k in range(0, len(chunk.source), rows):
        value = None if chunk.value is None else chunk.value[k : k + rows]
        ends = chunk.source[k : k + rows], chunk.target[k : k + rows]
        yield Chunk(*ends, value, 0 if k else chunk.valued)


def _chunk_blocks(
    order: int, number: int, chunk: Chunk, placement: Placement, mode: int
) -> Iterator[Block]:
    partitions = placement.partitions
    meta = {"order": [order, number], "valued": chunk.valued}
    columns = {"source": chunk.source, "target": chunk.target}
    if chunk.value is not None:
        columns["value"] = chunk.value
    if partitions == 1:
        yield 0, encode_bytes(columns, meta)
        return
    first = placement.of(chunk.target if mode == BACKWARD else chunk.source)
    both = mode not in (FORWARD, BACKWARD)
    second = placement.of(chunk.target) if both else first
    counts = np.bincount(first, minlength=partitions)
    if both:
        counts = counts + np.bincount(second[second != first], minlength=partitions)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    picked = _spread(first, second, bounds[:-1].copy(), both)
    for p in range(partitions):
        here = picked[bounds[p] : bounds[p + 1]]
        if len(here):
            yield p, encode_bytes({k: a[here] for k, a in columns.items()}, meta)
            meta = {**meta, "valued": 0}


def read_edges(blocks: Iterable[bytes]) -> tuple[list[Chunk], int]:
    """Return the edges of all blocks in input order, and how many lines had a value.

    Raises:
        Fault: the first one in the order of the input.
    """
    ordered: list[tuple[list[int], Chunk]] = []
    faults: list[Fault] = []
    valued = 0
    for block in blocks:
        columns, meta = decode(block)
        try:
            _raise_fault(meta)
        except Fault as fault:
            faults.append(fault)
            continue
        valued += meta["valued"]
        ordered.append(
            (meta["order"], Chunk(columns["source"], columns["target"], columns.get("value")))
        )
    if faults:
        raise min(faults, key=lambda f: f.order)
    ordered.sort(key=lambda pair: pair[0])
    return [chunk for _, chunk in ordered], valued


def row_blocks(
    partition: int, local_rows: LocalRows, partitions: int, valued: int
) -> Iterator[Block]:
    """Yield a partition's rows, as blocks to itself, and its ghosts, to their owners."""
    rows = local_rows.rows
    columns: dict[str, NDArray[Any] | None] = {
        "ids": local_rows.ids, "start": rows.start, "target": rows.target, "value": rows.value,
        "reverse": rows.reverse, "ghost": local_rows.ghost, "ghost_start": local_rows.ghost_start,
    }  # fmt: skip
    counts = [rows.edges_read, rows.duplicates, rows.self_loops, valued]
    for name, array in columns.items():
        if array is None:
            continue
        step = max(1, _PIECE // (array.itemsize * math.prod(array.shape[1:])))
        for piece, a in enumerate(range(0, max(len(array), 1), step)):
            meta = {"column": name, "piece": piece, "counts": counts}
            yield partition, encode_bytes({"array": array[a : a + step]}, meta)
    for p in range(partitions):
        if p != partition:
            yield p, encode_bytes(local_rows.ghosts_of(p).to_columns(), {"from": partition})


def join_rows(blocks: Iterable[bytes], partitions: int) -> tuple[LocalRows, list[Inbound], int]:
    """Join the blocks of `row_blocks` that a partition received.

    Returns:
        The partition's rows; for each partition those of its ghosts that this one owns; and how
        many lines had a value.

    Raises:
        Fault: bad input that another partition reported.
    """
    pieces: dict[str, list[tuple[int, NDArray[Any]]]] = {}
    ghosts = [NO_GHOSTS] * partitions
    counts = [0, 0, 0, 0]
    for block in blocks:
        columns, meta = decode(block)
        _raise_fault(meta)
        if "from" in meta:
            ghosts[meta["from"]] = Inbound.from_columns(columns)
        else:
            counts = meta["counts"]
            pieces.setdefault(meta["column"], []).append((meta["piece"], columns["array"]))

    def joined(name: str) -> Any:
        parts = [a for _, a in sorted(pieces.pop(name, []), key=lambda pair: pair[0])]
        return np.concatenate(parts) if parts else None

    *read, valued = counts
    rows = AdjacencyRows(*map(joined, ("start", "target", "value", "reverse")), *read)
    local_rows = LocalRows(joined("ids"), rows, joined("ghost"), joined("ghost_start"))
    return local_rows, ghosts, valued
