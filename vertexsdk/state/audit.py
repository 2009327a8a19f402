"""A check of a whole store: what is missing, corrupt or unreferenced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vertexsdk.state.contract import SegmentKey
from vertexsdk.state.errors import CorruptError, MissingError
from vertexsdk.state.garbage import reachable
from vertexsdk.state.leases import is_lease
from vertexsdk.state.manifests import SegmentRef

if TYPE_CHECKING:
    from vertexsdk.state._version_reader import VersionReader


@dataclass(slots=True)
class Audit:
    """The result of `audit`; the first two lists are empty if the store is intact.

    Attributes:
        missing, corrupt: one line for each segment or manifest that a version refers to.
        unreferenced: segments and manifests that no version or lease refers to: those of a run in
            progress, or of one that died, which `Store.collect` deletes.
        versions, segments, bytes: how much was checked.
    """

    missing: list[str] = field(default_factory=list)
    corrupt: list[str] = field(default_factory=list)
    unreferenced: list[str] = field(default_factory=list)
    versions: int = 0
    segments: int = 0
    bytes: int = 0


def audit(store: VersionReader) -> Audit:
    """Read and check every segment of every version of every loop."""
    result = Audit()
    seen: set[SegmentKey] = set()
    for loop in store.backend.list_heads():
        for iteration, name in store.backend.list_versions(loop):
            result.versions += 1
            try:
                refs = store.segments(store.manifest(name))
            except MissingError as error:
                result.missing.append(f"loop {loop!r}, iteration {iteration}: {error}")
                continue
            except CorruptError as error:
                result.corrupt.append(f"loop {loop!r}, iteration {iteration}: {error}")
                continue
            for ref in refs:
                if ref.key not in seen:
                    seen.add(ref.key)
                    _check(store, ref, result)
    manifests, segments = reachable(store)
    result.unreferenced += [
        f"manifest {name}"
        for name in store.backend.list_manifests()
        if name not in manifests and not is_lease(name)
    ]
    result.unreferenced += [
        f"segment {key}" for key in store.backend.list_segments() if key not in segments
    ]
    return result


def _check(store: VersionReader, ref: SegmentRef, result: Audit) -> None:
    try:
        store.check_segment(ref)
        result.segments += 1
        result.bytes += ref.bytes
    except MissingError as error:
        result.missing.append(str(error))
    except CorruptError as error:
        result.corrupt.append(str(error))
