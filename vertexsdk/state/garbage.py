"""Garbage collection: deleting what no version refers to any more.

The backend stores the references of each manifest, so `sweep` deletes what a dropped version
referred to without reading other loops. `collect` is mark and sweep from versions and leases, and
also deletes what runs left that died before their commit. It cannot tell that from what runs are
about to commit, so it keeps what is younger than a grace period. If the grace period was too short,
the commit fails: the backend never deletes what a commit refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vertexsdk.state.contract import SegmentKey, written_at
from vertexsdk.state.errors import FullError, MissingError
from vertexsdk.state.leases import active_leases, is_lease
from vertexsdk.state.pins import pinned, spare

if TYPE_CHECKING:
    from vertexsdk.state._version_reader import VersionReader
    from vertexsdk.state.manifests import Manifest

_BATCH = 256  # items deleted in one step, during which no commit is possible

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Collected:
    """The number of segments and manifests deleted, and of those kept as too young."""

    segments: int
    manifests: int
    young: int


def reachable(store: VersionReader) -> tuple[set[str], set[SegmentKey]]:
    """The manifests and segments that versions, leases and pins refer to."""
    names, segments = active_leases(store.backend)
    names |= pinned(store.backend.location)
    for loop in store.backend.list_heads():
        names.update(name for _, name in store.backend.list_versions(loop))
    manifests, segments_of = _follow_chains(store, names)
    return manifests, segments | segments_of


def sweep(store: VersionReader, dropped: Iterable[str]) -> None:
    """Delete manifests of dropped versions, and what only they refer to."""
    names = list(dropped)
    if not names:
        return
    leased, leased_segments = active_leases(store.backend)
    leased |= spare(store.backend.location, names)
    segments, _ = _release(store, [name for name in names if name not in leased])
    store.forget_tables()
    _in_batches(store.backend.delete_unreferenced, sorted(segments - leased_segments))


def collect(store: VersionReader, grace: float) -> Collected:
    """Delete what nothing refers to and was written more than `grace` seconds ago."""
    backend = store.backend
    cut = backend.now() - grace
    manifests = [name for name in backend.list_manifests() if not is_lease(name)]
    segments = list(backend.list_segments())
    needed, used = reachable(store)  # after listing: what is newer is not in the lists
    idle = [name for name in manifests if name not in needed]
    waste = [key for key in segments if key not in used]
    old = [key for key in waste if written_at(key.attempt) <= cut]
    stale = [name for name in idle if written_at(name) <= cut]
    store.forget_tables()
    gone = {*_in_batches(backend.delete_unreferenced, old)}  # first: files need no room to go
    _, released = _release(store, stale)
    rest = [key for key in old if key not in gone] if released else []
    removed = len(gone) + len(_in_batches(backend.delete_unreferenced, rest))
    young = len(waste) - len(old) + len(idle) - len(stale)
    return Collected(removed, released, young)


def _release(store: VersionReader, names: list[str]) -> tuple[set[SegmentKey], int]:
    """Delete unreferenced manifests, then their parents; return their segments and a count."""
    segments: set[SegmentKey] = set()
    count = 0
    while names:
        manifests = {}
        for name in sorted(names, reverse=True):  # by age, children first
            try:
                manifests[name] = store.manifest(name)
            except MissingError:
                continue

        def release(some: list[str], known: dict[str, Manifest] = manifests) -> list[str]:
            return store.backend.release_manifests({n: known[n].references for n in some})

        gone = _in_batches(release, list(manifests))
        count += len(gone)
        segments.update(ref.key for name in gone for ref in manifests[name].segments)
        above = {manifests[name].parent for name in gone if not manifests[name].complete}
        names = [name for name in above if name is not None and name not in gone]
    return segments, count


def _in_batches(work: Callable[[list[T]], list[T]], items: list[T]) -> list[T]:
    """Call `work` with a few items at a time; with fewer where the backend is full."""
    done: list[T] = []
    at_once = _BATCH
    while items:
        try:
            done += work(items[:at_once])
            items = items[at_once:]
        except FullError:
            if at_once == 1:
                raise
            at_once //= 4
    return done


def _follow_chains(store: VersionReader, names: Iterable[str]) -> tuple[set[str], set[SegmentKey]]:
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
