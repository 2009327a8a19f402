"""The change log of a loop: batches of changes as segments in the store, in order of arrival.

A snapshot with the edges replaces what came before its cut; a segment with changes from before and
after it stays, and who replays the log leaves the former out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import pack_arrow, unpack_arrow
from vertexsdk.graph.changes.changes import Changes, described_changes
from vertexsdk.graph.changes.deltas import Deltas, Sent
from vertexsdk.loops.ledger import Ledger
from vertexsdk.state import EncodedSegment, Manifest, SegmentRef, Store
from vertexsdk.state.stored_columns import Described, accepted_values
from vertexsdk.state.version_history import next_block

_COUNT = "changes"  # in the meta of a segment: how many it has, with deltas that are not edges
_REPLAYED = 1 << 20  # changes of a batch in a replay


@dataclass(frozen=True)
class ChangeLog:
    """The changes since the edges were stored; a fork of the loop starts with the same log.

    Attributes:
        tail: the small batches that are not joined yet.
        size: changes since then.
    """

    tail: tuple[Changes, ...] = ()
    size: int = 0

    def write(
        self,
        store: Store,
        loop: str,
        iteration: int,
        batch: Changes,
        defer: Callable[[EncodedSegment], object] | None = None,
    ) -> tuple[SegmentRef, ChangeLog]:
        """Store a batch.

        Args:
            defer: as for `Store.put_segment`.

        Returns:
            Its segment, and the log after that is committed.

        Raises:
            FullError: no room; nothing was stored.
        """
        block, group, tail = next_block(self.tail, batch, concatenate)
        ref = store.put_segment(
            loop, 0, iteration, "changes", _columns(block), {_COUNT: len(block)},
            group=group, defer=defer,
        )  # fmt: skip
        return ref, ChangeLog(tail, self.size + len(batch))

    @classmethod
    def of(
        cls, store: Store, manifest: Manifest, *, include_sent: bool, undirected: bool
    ) -> ChangeLog:
        """The log of a version.

        Args:
            include_sent: also read deltas that are not edges; they are pickled.
            undirected: edges have no direction; an edge that older logs name in both directions
                gets one.
        """
        refs = _refs(store, manifest)
        value = _value_of(manifest)
        tail = tuple(
            _changes(_stored(store, ref, value, include_sent), undirected)
            for ref, _ in refs
            if ref.group == "tail"
        )
        return cls(tail, sum(rows for _, rows in refs) - _before_edges(manifest, refs))

    @staticmethod
    def after(store: Store, manifest: Manifest, received: int) -> list[SegmentRef]:
        """The segments of a version's log with changes that came after the first `received`."""
        refs, end = _refs(store, manifest), Ledger.read(manifest).received
        later = []
        for ref, rows in reversed(refs):
            if end > received:
                later.append(ref)
            end -= rows
        return later[::-1]

    @staticmethod
    def replay(
        store: Store, manifest: Manifest, *, include_sent: bool, undirected: bool
    ) -> Iterator[Changes]:
        """Yield the changes since the edges were stored, in order, in large batches."""
        batches: list[Changes] = []
        refs = _refs(store, manifest)
        skip = _before_edges(manifest, refs)
        for ref, rows in refs:
            if skip and rows <= skip:
                skip -= rows
                continue
            batch = _changes(_stored(store, ref, _value_of(manifest), include_sent), undirected)
            if len(batch) == rows:  # else deltas are left out, and edges may be set again
                batch = batch[skip:]
            batches.append(batch)
            skip = 0
            if sum(map(len, batches)) >= _REPLAYED:
                yield concatenate(batches)
                batches = []
        if batches:
            yield concatenate(batches)


def _refs(store: Store, manifest: Manifest) -> list[tuple[SegmentRef, int]]:
    """The segments of a log, in order, and how many changes each has."""
    refs = [ref for ref in store.segments(manifest) if ref.kind == "changes"]
    counts = [_count(store, ref) for ref in refs]
    return list(zip(refs, counts, strict=True))


def _count(store: Store, ref: SegmentRef) -> int:
    table = store.table(ref)
    with store.naming_segment(ref):
        count = accepted_values(table.meta, {_COUNT: int}).get(_COUNT)
        return count or table.length("kind")


def _before_edges(manifest: Manifest, refs: Sequence[tuple[SegmentRef, int]]) -> int:
    """Count those of a log's first changes that the stored edges have."""
    ledger = Ledger.of(manifest)
    if ledger is None or ledger.graph is None:
        return 0
    return ledger.graph - (ledger.received - sum(rows for _, rows in refs))


def concatenate(batches: Sequence[Changes]) -> Changes:
    """Return one batch of several, in order.

    >>> one = Changes.of([("+", 1, 2)])
    >>> len(concatenate([one, one]))
    2
    """
    if len(batches) == 1:
        return batches[0]
    ends = (pa.chunked_array([getattr(b, n) for b in batches]) for n in ("source", "target"))
    source, target = (_combined(end) for end in ends)
    edge_changes = Changes(
        np.concatenate([b.kind for b in batches]),
        source,
        target,
        np.concatenate([b.value for b in batches]),
        time=_times(batches),
    )
    deltas, rows = list[Sent](), 0
    for b in batches:
        if isinstance(b, Deltas):
            deltas += [replace(s, at=s.at + rows) for s in b.sent]
        rows += len(b.kind)
    return replace(Deltas.of_changes(edge_changes), sent=tuple(deltas)) if deltas else edge_changes


def _times(batches: Sequence[Changes]) -> NDArray[np.float64]:
    """The times of all changes; NaN where a batch has none beside others that do."""
    if not any(len(b.time) for b in batches):
        return np.empty(0)
    return np.concatenate(
        [b.time if len(b.time) else np.full(len(b.kind), np.nan) for b in batches]
    )


def _combined(chunks: pa.ChunkedArray) -> pa.Array:
    combined = chunks.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _columns(batch: Changes) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {"kind": batch.kind, "value": batch.value}
    for name in ("source", "target"):
        ids = getattr(batch, name)
        if pa.types.is_integer(ids.type):
            columns[name] = np.asarray(ids)
        else:
            columns[f"{name}.offsets"], columns[f"{name}.bytes"] = pack_arrow(ids)
    if len(batch.time):
        columns["time"] = batch.time
    if isinstance(batch, Deltas) and batch.sent:
        columns |= batch.columns()
    return columns


def _value_of(manifest: Manifest) -> str | None:
    """The dtype of the edge values of a version."""
    ledger = Ledger.of(manifest)
    return None if ledger is None else ledger.value


def _stored(
    store: Store, ref: SegmentRef, value: str | None, include_sent: bool
) -> dict[str, NDArray[Any]]:
    """The columns of a segment; the pickle of deltas that are not edges if `include_sent`."""
    described = described_changes(store, ref, value)
    if include_sent:
        described["sent"] = Described(np.uint8, rows="", required=False)
    return store.segment(ref, described=described)


def _changes(columns: dict[str, NDArray[Any]], undirected: bool) -> Changes:
    ends = []
    for name in ("source", "target"):
        if name in columns:
            ends.append(pa.array(columns[name], pa.int64()))
        else:
            ends.append(unpack_arrow(columns[f"{name}.offsets"], columns[f"{name}.bytes"]))
    time = columns.get("time", np.empty(0))
    changes = Changes(columns["kind"], ends[0], ends[1], columns["value"], time=time)
    changes = changes.canonical() if undirected else changes
    return Deltas.with_sent(changes, columns) if "sent" in columns else changes
