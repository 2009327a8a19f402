"""The newest version of a loop that one driver writes, and the commit of the next one.

With each version goes a *record*, what its driver knows of it: how long its log is, what it has
counted. Both become newest together, and if a commit fails neither does. Such a commit may have
taken effect all the same: the history is *in doubt* until `refresh` has asked the store.

A version that can be computed again is written behind: a thread stores it, in the meantime it is
read from memory, and the next version waits for it.
"""

from __future__ import annotations

import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Sized
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from vertexsdk.errors import InputError
from vertexsdk.state.errors import FencedError, FullError, StateError
from vertexsdk.state.manifests import EncodedSegment, Manifest, SegmentRef
from vertexsdk.state.store import Store
from vertexsdk.state.write_behind import WriteBehind

R = TypeVar("R")
T = TypeVar("T")
B = TypeVar("B", bound=Sized)
KEYED = "keyed"  # the entry of a version's statistics by which it is of a stateful class
_PRUNE = 64  # commits, at least, between deletions of old versions
_PRUNE_SECONDS = 1e-3  # for such deletions, per commit
_BATCHES = 64  # small batches of a log that are joined
_ROWS = 1 << 14  # rows from which a batch, or the small ones together, are not small


class ClosedError(InputError):
    """The loop was closed."""


class VersionFollower(Protocol):
    """A reader of all versions of a loop.

    Attributes:
        seen: it has read the versions up to this iteration.
    """

    seen: int


class _Unwritten(NamedTuple, Generic[R]):
    """A version that is being written."""

    manifest: Manifest
    refs: list[SegmentRef]
    segments: Sequence[EncodedSegment]  # those that may not be in the store yet
    previous: tuple[Manifest, R]  # the version that was newest, and its record
    published: Future[Manifest]


class VersionHistory(ABC, Generic[R]):
    """The versions of one loop, as its only driver commits them.

    Args:
        store: which has claimed the loop, or does with the first commit.
        loop: its name.
        newest: the version to continue from and its record; None before the first one.
        retain: newest versions that are kept.

    Attributes:
        newest: the newest version and its record. It is replaced as a whole, so any thread may
            read it without a lock.
        written: is notified when a version is in the store, or the loop was closed.
        writes: how often that was.
        readers: versions that these have not read stay in the store.
        stale: something failed, so what was computed may be of another version than the newest;
            the code that computed it resets this.
    """

    newest: tuple[Manifest, R]

    def __init__(
        self, store: Store, loop: str, newest: tuple[Manifest, R] | None, retain: int
    ) -> None:
        self.store, self.loop, self._retain = store, loop, retain
        if newest is not None:
            self.newest = newest
        self.written = threading.Condition()
        self.writes = 0
        self.readers: weakref.WeakSet[VersionFollower] = weakref.WeakSet()
        self.closed_by = None
        self.stale = self._in_doubt = False
        self._commits, self._prune = 0, _PRUNE
        self._writes = WriteBehind(store.backend.location)
        self._unwritten: _Unwritten[R] | None = None

    @abstractmethod
    def read_record(self, manifest: Manifest) -> R:
        """Return the record of a version in the store."""

    @property
    def closed_by(self) -> Exception | None:
        """The reason why nothing can be committed any more."""
        return self._closed_by

    @closed_by.setter
    def closed_by(self, reason: Exception | None) -> None:
        self._closed_by = reason
        self._announce()

    def _announce(self) -> None:
        with self.written:
            self.writes += 1
            self.written.notify_all()

    @property
    def manifest(self) -> Manifest:
        """The newest version."""
        return self.newest[0]

    @property
    def published(self) -> Future[Manifest]:
        """The newest version, once it is in the store."""
        if self._unwritten is not None:
            return self._unwritten.published
        stored: Future[Manifest] = Future()
        stored.set_result(self.manifest)
        return stored

    def write_behind(self, work: Callable[[], T]) -> Future[T]:
        """Call a function that writes to the store, in the thread, after the versions so far."""
        return self._writes.submit(work)

    def end_writes(self) -> None:
        """Wait for all writes, and end the thread."""
        self._writes.close()

    def settle(self) -> None:
        """Wait until everything is in the store; called by who may commit.

        Raises:
            StateError: the newest version cannot be written; the one before is newest again.
        """
        self._writes.wait()
        unwritten, self._unwritten = self._unwritten, None
        if unwritten is None:
            return
        try:
            manifest = unwritten.published.result()
        except BaseException as error:
            self.newest = unwritten.previous
            self._doubt(error)
            raise
        if manifest.name != self.manifest.name:  # the loop was compacted
            self.newest = manifest, self.newest[1]

    def commit(
        self, record: R, segments: Sequence[SegmentRef], *, steps: int = 1,
        put: Sequence[EncodedSegment] = (), offsets: Mapping[str, Any] | None = None,
        behind: bool = False, **fields: Any,
    ) -> None:  # fmt: skip
        """Commit the next version.

        Args:
            record: the version's record.
            segments: the segments that it adds.
            steps: iterations after the previous version; 0 replaces that.
            put: those segments that are not in the store yet.
            offsets: the offsets of sources, by name; those of other sources stay.
            behind: return before the version is in the store.
            fields: other arguments of `Store.commit`.

        Raises:
            FencedError: another driver has the loop.
            StateError: it may be in the store or not.
        """
        self.settle()
        previous = getattr(self, "newest", None)
        parent = None if previous is None else previous[0]
        publish: list[Callable[[], Manifest]] = []
        try:
            with self._writes.lock:
                manifest = self.store.commit(
                    self.loop, iteration=parent.iteration + steps if parent else 0,
                    segments=segments, parent=parent, put=put, defer=publish.append,
                    offsets={**(parent.offsets if parent else {}), **(offsets or {})}, **fields,
                )  # fmt: skip
                refs = self.store.segments(manifest)
                write = partial(self._write_version, publish[0])
                if not behind:
                    manifest = write()
        except BaseException as error:
            self._doubt(error)
            raise
        if behind:
            assert previous is not None
            self._unwritten = _Unwritten(manifest, refs, put, previous, self.write_behind(write))
        self.newest = manifest, record

    def repeats(self, source: str, offset: Any) -> bool:
        """Return whether the newest version has what a source gave up to an offset.

        Args:
            source: its name.
            offset: an int that grows, or any JSON value.
        """
        if source not in self.manifest.offsets:
            return False
        stored = self.manifest.offsets[source]
        if isinstance(offset, int) and isinstance(stored, int):
            return offset <= stored
        return bool(offset == stored)

    def _write_version(self, publish: Callable[[], Manifest]) -> Manifest:
        """Store a version; after a number of these, delete old ones."""
        manifest = publish()
        self._announce()
        self._commits += 1
        if self._commits >= self._prune:
            began = time.perf_counter()
            with suppress(StateError):
                self.store.prune(self.loop, self._retained())
            seconds = time.perf_counter() - began  # a store with many loops takes longer
            self._prune = self._commits + max(_PRUNE, int(seconds / _PRUNE_SECONDS))
        return manifest

    def _retained(self) -> int:
        """The number of versions to keep: `retain`, and those that a reader has not read."""
        seen = min((reader.seen for reader in list(self.readers)), default=None)
        if seen is None:
            return self._retain
        versions = self.store.backend.list_versions(self.loop)
        unread = sum(iteration > seen for iteration, _ in versions)
        return max(self._retain, unread + 1)

    def _doubt(self, error: BaseException) -> None:
        self.stale = self._in_doubt = True
        if isinstance(error, FencedError):
            self.closed_by = error

    def refresh(self) -> None:
        """Have the newest version of the store, after whatever failed.

        Raises:
            FencedError: another driver has taken the loop over.
            StateError: the store cannot be read.
        """
        self.settle()
        if self._in_doubt:  # until the claim is renewed the commit may still take effect
            try:
                with self._writes.lock, suppress(FullError):  # nor does it have room
                    self.store.renew_claim(self.loop)
            except FencedError as error:
                self.closed_by = error
                raise
        newest = self.store.version(self.loop)
        if newest.name != self.manifest.name:  # the commit succeeded, what followed failed
            self.newest = newest, self.read_record(newest)
        self._in_doubt = False


def next_block(
    tail: tuple[B, ...], batch: B, join: Callable[[Sequence[B]], B]
) -> tuple[B, str, tuple[B, ...]]:
    """Return the block of a log to write when a batch comes in, its group, and the tail after it.

    A small batch is a small segment of group "tail". Many small ones are written again as one
    segment of group "", which replaces them, so the list of segments stays short.

    >>> next_block(("ab",), "c", "".join)
    ('c', 'tail', ('ab', 'c'))
    """
    waiting = (*tail, batch)
    if len(waiting) < _BATCHES and sum(map(len, waiting)) < _ROWS:
        return batch, "tail", waiting
    return join(waiting), "", ()
