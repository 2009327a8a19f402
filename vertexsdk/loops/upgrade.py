"""`vertexsdk state upgrade`: the edges and change logs of an earlier format, written anew.

The states of vertices are left out: the next query of a loop that is resumed computes them. Loops
without edges, which were written by a run, are deleted. A loop is replaced in one commit, so that
an upgrade which was interrupted can be run again. Until all loops are replaced, a lease keeps what
they share: the earliest format has no references.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from vertexsdk.arrays.format_1 import MAGIC, read_columns
from vertexsdk.loops._ledger import Ledger
from vertexsdk.state import Manifest, MissingError, SegmentRef, Store
from vertexsdk.state.contract import SegmentKey
from vertexsdk.state.garbage import reachable
from vertexsdk.state.pins import Lease

_DAY = 86400.0


def upgrade(store: Store) -> dict[str, bool]:
    """Bring every loop of a store, which nobody else uses, to the present format.

    Returns:
        For each loop whether it was carried over; the others had no edges, and were deleted.

    Raises:
        CorruptError, MissingError: a loop's segments cannot be read; it stays as it is.
        FullError: no room; what was written stays, and the next upgrade goes on.
    """
    written: dict[SegmentKey, SegmentRef] = {}  # by the segment before, which loops share
    has_edges = {}
    with closing(Lease(store.backend, _DAY, *reachable(store))):
        for loop in store.loops():
            manifest = store.version(loop)
            refs = [r for r in store.segments(manifest) if r.kind in ("topology", "changes")]
            has_edges[loop] = bool(refs)
            if not refs:
                store.delete(loop)
            elif _is_earlier(store, refs[0]):
                for ref in refs:
                    if ref.key not in written:
                        written[ref.key] = _write(store, ref)
                _commit(store, loop, manifest, [written[ref.key] for ref in refs])
    store.backend.finish_upgrade()
    store.collect(0, alone=True)
    return has_edges


def _is_earlier(store: Store, ref: SegmentRef) -> bool:
    pieces = store.backend.get_segment(ref.key)
    return pieces is not None and pieces[0][: len(MAGIC)].tobytes() == MAGIC


def _write(store: Store, ref: SegmentRef) -> SegmentRef:
    pieces = store.backend.get_segment(ref.key)
    if pieces is None:
        raise MissingError(f"segment {ref.key} is missing in {store.backend.location}")
    columns, meta = read_columns(pieces, f"segment {ref.key} in {store.backend.location}")
    if "offsets" in columns:
        columns["names.offsets"] = columns.pop("offsets")
        columns["names.bytes"] = columns.pop("bytes")
    k = ref.key
    return store.put_segment(
        k.loop, k.partition, k.iteration, ref.kind, columns, meta, group=ref.group
    )


def _commit(store: Store, loop: str, manifest: Manifest, refs: list[SegmentRef]) -> None:
    ledger, statistics = Ledger.of(manifest), dict(manifest.statistics)
    if ledger is not None:
        new = replace(ledger, state=False, exact=False, residual=None, reflected=0)
        statistics |= new.statistics()
    store.commit(
        loop,
        iteration=manifest.iteration,
        segments=refs,
        schema=manifest.schema,
        program=manifest.program,
        statistics=statistics,
        offsets=manifest.offsets,
        partitions=manifest.partitions,
        ids=manifest.ids,
    )
