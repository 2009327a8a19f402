"""Everything in a store, walked: what is missing, what is corrupt, what nothing refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vertexsdk.state.contract import SegmentKey
from vertexsdk.state.errors import CorruptError, MissingError
from vertexsdk.state.garbage import marked
from vertexsdk.state.leases import is_record
from vertexsdk.state.manifests import SegmentRef

if TYPE_CHECKING:
    from vertexsdk.state._snapshots import Snapshots

__all__ = ["Audit", "audit"]


@dataclass(slots=True)
class Audit:
    """What a walk found; the first two lists are empty in a sound store.

    Attributes:
        missing, corrupt: one line per thing that a version needs.
        unreferenced: names of segments and manifests that no version or lease needs; of a run
            that is going on, or left by one that died, for `collect` to remove.
        versions, segments, bytes: how much was checked.
    """

    missing: list[str] = field(default_factory=list)
    corrupt: list[str] = field(default_factory=list)
    unreferenced: list[str] = field(default_factory=list)
    versions: int = 0
    segments: int = 0
    bytes: int = 0


def audit(store: Snapshots) -> Audit:
    """Read and check every segment of every version of every loop."""
    found = Audit()
    seen: set[SegmentKey] = set()
    for loop in store.backend.list_heads():
        for iteration, name in store.backend.list_versions(loop):
            found.versions += 1
            try:
                refs = store.segments(store.manifest(name))
            except MissingError as error:
                found.missing.append(f"loop {loop!r}, iteration {iteration}: {error}")
                continue
            except CorruptError as error:
                found.corrupt.append(f"loop {loop!r}, iteration {iteration}: {error}")
                continue
            for ref in refs:
                if ref.key not in seen:
                    seen.add(ref.key)
                    _check(store, ref, found)
    manifests, segments = marked(store)
    found.unreferenced += [
        f"manifest {name}"
        for name in store.backend.list_manifests()
        if name not in manifests and not is_record(name)
    ]
    found.unreferenced += [
        f"segment {key}" for key in store.backend.list_segments() if key not in segments
    ]
    return found


def _check(store: Snapshots, ref: SegmentRef, found: Audit) -> None:
    try:
        table = store.table(ref)
        with store.naming_segment(ref):
            for name in table.stored:
                table.check(name)
        found.segments += 1
        found.bytes += ref.bytes
    except MissingError as error:
        found.missing.append(str(error))
    except CorruptError as error:
        found.corrupt.append(str(error))
