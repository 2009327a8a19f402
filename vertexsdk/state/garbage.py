"""What no version needs any more, found by marking from heads, retained iterations and leases.

Two ways to remove it: `sweep` what a version needed that was dropped just now, and `collect` what
runs left that died before their commit. The second cannot tell those from runs that are about to
commit, so it spares what is younger than a grace period.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vertexsdk.state.contract import SegmentKey, written_at
from vertexsdk.state.errors import MissingError
from vertexsdk.state.leases import collecting, is_record, leased

if TYPE_CHECKING:
    from vertexsdk.state.snapshots import Snapshots

__all__ = ["Collected", "collect", "marked", "sweep"]

_AT_ONCE = 256  # segments deleted in one step, between looks at the clock


@dataclass(frozen=True, slots=True)
class Collected:
    """How many segments and manifests were removed, and how many were spared as too young."""

    segments: int
    manifests: int
    young: int


def marked(store: Snapshots) -> tuple[set[str], set[SegmentKey]]:
    """The manifests and segments that versions and leases need."""
    names, segments = leased(store.backend)
    for loop in store.backend.list_heads():
        names.update(name for _, name in store.backend.list_versions(loop))
    manifests, reached = _reachable(store, names)
    return manifests, segments | reached


def sweep(store: Snapshots, dropped: Iterable[str]) -> None:
    """Delete what only the manifests named needed, now that no version names them."""
    names = set(dropped)
    if not names:
        return
    needed, used = marked(store)
    chains, unused = _reachable(store, names)
    store.backend.delete_manifests(sorted(chains - needed))
    store.forget_tables()
    store.backend.delete_segments(sorted(unused - used))


def collect(store: Snapshots, grace: float) -> Collected:
    """Delete what nothing needs and was written more than `grace` seconds ago."""
    backend = store.backend
    removed, gone, young = 0, 0, 0
    with collecting(backend) as stop:
        cut = time.time() - grace
        manifests = [name for name in backend.list_manifests() if not is_record(name)]
        segments = list(backend.list_segments())
        needed, used = marked(store)  # after listing: what is newer is not in the lists
        idle = [name for name in manifests if name not in needed]
        waste = [key for key in segments if key not in used]
        old = [key for key in waste if written_at(key.attempt) <= cut]
        stale = [name for name in idle if written_at(name) <= cut]
        young = len(waste) - len(old) + len(idle) - len(stale)
        backend.delete_manifests(stale)
        gone = len(stale)
        store.forget_tables()
        while removed < len(old) and time.time() < stop:
            some = old[removed : removed + _AT_ONCE]
            backend.delete_segments(some)
            removed += len(some)
    if removed < len(old):
        more = collect(store, grace)
        return Collected(removed + more.segments, gone + more.manifests, more.young)
    return Collected(removed, gone, young)


def _reachable(store: Snapshots, names: Iterable[str]) -> tuple[set[str], set[SegmentKey]]:
    manifests: set[str] = set()
    segments: set[SegmentKey] = set()
    for first in names:
        name: str | None = first
        while name is not None and name not in manifests:
            manifests.add(name)
            try:
                manifest = store.manifest(name)
            except MissingError:
                break
            segments.update(ref.key for ref in manifest.segments)
            name = None if manifest.complete else manifest.parent
    return manifests, segments
