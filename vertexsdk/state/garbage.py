"""Deleting what no version refers to any more, and checking what versions refer to.

The backend stores the references of each manifest, so `sweep` deletes what a dropped version
referred to without reading other loops. `collect` is mark and sweep from versions and leases, and
also deletes what runs left that died before their commit. It cannot tell that from what runs are
about to commit, so it keeps what is younger than a grace period. If the grace period was too short,
the commit fails: the backend never deletes what a commit refers to. `audit` is the same walk, which
reads and checks what it meets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from vertexsdk.state.contract import SegmentKey, written_at
from vertexsdk.state.errors import CorruptError, FullError, MissingError
from vertexsdk.state.manifests import Manifest, SegmentRef
from vertexsdk.state.pins import active_leases, is_record, pinned, spare
from vertexsdk.state.version_reader import VersionReader

_BATCH = 256  # items deleted in one step, during which no commit is possible

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Collected:
    """The number of segments and manifests deleted, and of those kept as too young."""

    segments: int
    manifests: int
    young: int


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

    @contextmanager
    def noting(self, place: str = "") -> Iterator[None]:
        """Note what is missing or corrupt in this context."""
        try:
            yield
        except MissingError as error:
            self.missing.append(f"{place}{error}")
        except CorruptError as error:
            self.corrupt.append(f"{place}{error}")


def reachable(store: VersionReader) -> tuple[set[str], set[SegmentKey]]:
    """The manifests and segments that versions, leases and pins refer to."""
    names, segments = active_leases(store.backend)
    names |= pinned(store.backend.location)
    for loop in store.backend.list_heads():
        names.update(name for _, name in store.backend.list_versions(loop))
    manifests: set[str] = set()
    for name in names:
        with suppress(MissingError):
            for manifest in store.chain(store.manifest(name)):
                if manifest.name in manifests:
                    break
                manifests.add(manifest.name)
                segments.update(ref.key for ref in manifest.segments)
    return manifests, segments


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
    manifests = [name for name in backend.list_manifests() if not is_record(name)]
    segments = list(backend.list_segments())
    needed, used = reachable(store)  # after listing: what is newer is not in the lists
    idle = [name for name in manifests if name not in needed]
    waste = [key for key in segments if key not in used]
    old = [key for key in waste if written_at(key.attempt) <= cut]
    stale = [name for name in idle if written_at(name) <= cut]
    store.forget_tables()
    deleted = {*_in_batches(backend.delete_unreferenced, old)}  # first: files need no room to go
    _, released = _release(store, stale)
    rest = [key for key in old if key not in deleted] if released else []
    removed = len(deleted) + len(_in_batches(backend.delete_unreferenced, rest))
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

        released = _in_batches(release, list(manifests))
        count += len(released)
        segments.update(ref.key for name in released for ref in manifests[name].segments)
        below = {manifests[name].below for name in released}
        names = [name for name in below if name is not None and name not in released]
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


def audit(store: VersionReader) -> Audit:
    """Read and check every segment of every version of every loop."""
    result = Audit()
    seen: set[SegmentKey] = set()
    for loop in store.backend.list_heads():
        for iteration, name in store.backend.list_versions(loop):
            result.versions += 1
            known = len(result.missing)
            refs: list[SegmentRef] = []
            with result.noting(f"loop {loop!r}, iteration {iteration}: "):
                refs = store.segments(store.manifest(name))
            for ref in refs:
                if ref.key not in seen:
                    seen.add(ref.key)
                    with result.noting():
                        store.check_segment(ref)
                        result.segments += 1
                        result.bytes += ref.bytes
            if store.backend.floor(loop, iteration) != (iteration, name):
                del result.missing[known:]  # it was replaced, or dropped, meanwhile
    with result.noting("what is unreferenced: "):
        manifests, segments = reachable(store)
        result.unreferenced += [
            f"manifest {name}"
            for name in store.backend.list_manifests()
            if name not in manifests and not is_record(name)
        ]
        result.unreferenced += [
            f"segment {key}" for key in store.backend.list_segments() if key not in segments
        ]
    return result
