"""What no version needs any more.

Each manifest's references are kept beside it, so that what a dropped version needed is removed by
`sweep` without a look at other loops. What runs left that died before their commit is found by
`collect`, by marking from versions and leases. It cannot tell that from what runs are about to
commit, so it spares what is younger than a grace period; and whatever it takes from a run, whose
commit then fails, the backend removes only what no commit refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vertexsdk.state.contract import SegmentKey, written_at
from vertexsdk.state.errors import FullError, MissingError
from vertexsdk.state.leases import is_record, leased

if TYPE_CHECKING:
    from vertexsdk.state._snapshots import Snapshots
    from vertexsdk.state.manifests import Manifest

__all__ = ["Collected", "collect", "marked", "sweep"]

_AT_ONCE = 256  # things removed in one step, in which nobody can commit

T = TypeVar("T")


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
    names = list(dropped)
    if not names:
        return
    held, kept = leased(store.backend)
    segments, _ = _release(store, [name for name in names if name not in held])
    store.forget_tables()
    _in_parts(store.backend.delete_unreferenced, sorted(segments - kept))


def collect(store: Snapshots, grace: float) -> Collected:
    """Delete what nothing needs and was written more than `grace` seconds ago."""
    backend = store.backend
    cut = backend.now() - grace
    manifests = [name for name in backend.list_manifests() if not is_record(name)]
    segments = list(backend.list_segments())
    needed, used = marked(store)  # after listing: what is newer is not in the lists
    idle = [name for name in manifests if name not in needed]
    waste = [key for key in segments if key not in used]
    old = [key for key in waste if written_at(key.attempt) <= cut]
    stale = [name for name in idle if written_at(name) <= cut]
    store.forget_tables()
    gone = {*_in_parts(backend.delete_unreferenced, old)}  # first: files need no room to go
    _, released = _release(store, stale)
    rest = [key for key in old if key not in gone] if released else []
    removed = len(gone) + len(_in_parts(backend.delete_unreferenced, rest))
    young = len(waste) - len(old) + len(idle) - len(stale)
    return Collected(removed, released, young)


def _release(store: Snapshots, names: list[str]) -> tuple[set[SegmentKey], int]:
    """Delete manifests that nothing refers to, and then their parents; what they referred to."""
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

        gone = _in_parts(release, list(manifests))
        count += len(gone)
        segments.update(ref.key for name in gone for ref in manifests[name].segments)
        above = {manifests[name].parent for name in gone if not manifests[name].complete}
        names = [name for name in above if name is not None and name not in gone]
    return segments, count


def _in_parts(work: Callable[[list[T]], list[T]], things: list[T]) -> list[T]:
    """Do it with a few things at a time; with fewer, where there is little room to do it in."""
    done: list[T] = []
    at_once = _AT_ONCE
    while things:
        try:
            done += work(things[:at_once])
            things = things[at_once:]
        except FullError:
            if at_once == 1:
                raise
            at_once //= 4
    return done


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
