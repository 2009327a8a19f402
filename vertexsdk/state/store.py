"""The versioned store: every retained version of every loop, on any backend.

- Nothing that a version refers to is ever changed: reading a version gives the same bytes until the
  version is dropped.
- A commit is *segments durable → manifest → head*. A crash between any two loses nothing that was
  acknowledged, and leaves only garbage that no version refers to.
- Of two drivers that write one loop, only the one that claimed it last can commit; the other gets a
  `FencedError`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from vertexsdk.arrays.arrow_table import Column, encode, schema_hash
from vertexsdk.state.address import Address
from vertexsdk.state.contract import (
    Backend,
    CanQuery,
    Head,
    SegmentKey,
    check_name,
    new_attempt,
    new_epoch,
)
from vertexsdk.state.difference import Difference, compare
from vertexsdk.state.errors import FencedError, MissingError, StateError, StateInputError
from vertexsdk.state.garbage import Audit, Collected, audit, collect, sweep
from vertexsdk.state.manifests import (
    KINDS,
    MAX_CHAIN,
    EncodedSegment,
    Kind,
    Manifest,
    SegmentRef,
    layers_by_partition,
    live_segments,
)
from vertexsdk.state.pins import LEASE_SECONDS, Lease, Pin
from vertexsdk.state.reading import by_key_group, check_rows, overlay
from vertexsdk.state.sql_view import show
from vertexsdk.state.version_reader import VersionReader
from vertexsdk.state.write_behind import wait_for_writes

_MIN_GRACE = 120.0  # seconds, while runs use the store


def open_store(url: str | Address, *, create: bool = True) -> Store:
    """Open the store at `lmdb:///path`, `redis://host`, `postgresql://host/db`, `memory://name`,
    or at the URL of another installed backend.

    Args:
        url: the URL, or "@FILE" for a file that contains it in one line.
        create: create the store if there is none; a reader passes False.

    Returns:
        The store; a context manager that closes it.

    Raises:
        StateInputError: the URL is wrong, or no store exists.
        StateError: the store cannot be opened.

    Example:
        >>> import numpy as np
        >>> with open_store("memory://open-store") as store:
        ...     columns = {"id": np.array([1, 2]), "rank": np.array([0.25, 0.75])}
        ...     ref = store.put_segment("ranks", 0, 0, "base", columns)
        ...     version = store.commit("ranks", iteration=0, segments=[ref])
        ...     store.lookup("ranks", [2])
        {2: {'rank': 0.75}}
    """
    from vertexsdk.backends import open_backend

    return Store(open_backend(url, create=create))


class Store(VersionReader):
    """Loops and their versions in one backend; `VersionReader` has what reads them.

    A store can be pickled: another process that unpickles it opens the same store.

    Attributes:
        backend: where segments, manifests and heads are stored.

    Example:
        >>> import numpy as np
        >>> with open_store("memory://store") as store:
        ...     columns = {"id": np.array([7]), "rank": np.array([1.0])}
        ...     base = store.put_segment("main", 0, 0, "base", columns)
        ...     first = store.commit("main", iteration=0, segments=[base])
        ...     fork = store.fork("main", "what-if")
        ...     columns = {"id": np.array([7]), "rank": np.array([2.0])}
        ...     delta = store.put_segment("what-if", 0, 1, "delta", columns)
        ...     second = store.commit("what-if", iteration=1, segments=[delta], parent=fork)
        ...     store.lookup("main", [7]), store.lookup("what-if", [7])
        ({7: {'rank': 1.0}}, {7: {'rank': 2.0}})
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._claims: dict[str, Head] = {}
        self._epochs: dict[str, set[int]] = {}  # of the claims that this store has tried

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(open_store, create=False), (self.backend.address,)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and isinstance(self.backend, CanQuery):
            for loop in list(self._claims):
                self.show(loop)
        self.close()

    def put_segment(
        self,
        loop: str,
        partition: int,
        iteration: int,
        kind: Kind,
        columns: Mapping[str, Column],
        meta: Mapping[str, Any] | None = None,
        *,
        group: str = "",
        defer: Callable[[EncodedSegment], object] | None = None,
    ) -> SegmentRef:
        """Store columns durably; called in tasks and in the driver. No version refers to them yet.

        Args:
            loop, partition, iteration: what the segment belongs to.
            kind: "base" (every vertex of the partition), "delta" (whole rows of those that changed
                since the version it will be committed on), "topology", "changes", or "snapshot".
            columns: for a base or delta, "id" (int64[n], different) and one row per vertex in
                every other column, shape (n,) or (n, k), in any order: rows are stored in that
                of their key groups. Two columns "x.offsets" and "x.bytes" are strings.
            meta: any JSON, stored in the segment.
            group: distinguishes segments of one partition and kind, such as vertex classes.
            defer: takes the encoded segment, to `put` it later; until then it is not durable.

        Returns:
            What `commit` takes, also from another process.

        Raises:
            StateInputError: a wrong loop name or kind.
            FullError: the backend is full; nothing was stored.
            StateError: columns that cannot be stored.
        """
        check_name(loop)
        if kind not in KINDS:
            raise StateInputError(f"no segment kind {kind!r}: use one of {', '.join(KINDS)}")
        stored, groups = dict(columns), None
        if kind in ("base", "delta"):
            check_rows(columns)
            stored, groups = by_key_group(stored)
        pieces = tuple(encode(stored, meta, groups=groups))
        key = SegmentKey(loop, int(partition), int(iteration), new_attempt(self.backend.now()))
        rows = len(columns["id"]) if "id" in columns else max(map(len, columns.values()), default=0)
        ref = SegmentRef(key, kind, group, rows, sum(map(len, pieces)), schema_hash(stored))
        (defer or self.put)(EncodedSegment(ref, pieces))
        return ref

    def put(self, segment: EncodedSegment) -> None:
        """Store an encoded segment durably."""
        self.backend.put_segment(segment.ref.key, segment.pieces)

    def claim(
        self,
        loop: str,
        *,
        program: str | None = None,
        schema: Any = None,
        check: Callable[[Manifest], None] | None = None,
    ) -> Manifest | None:
        """Take over the loop: from now on only this store can commit to it.

        Args:
            program, schema: the writer's; None is not compared.
            check: is called with the newest version, if there is one, and raises to leave the
                loop to its owner.

        Returns:
            The newest version, or None if the loop is new.

        Raises:
            OwnerError: the loop was written by another program or with other fields.
        """
        check_name(loop)
        self.backend.check_rights()
        wait_for_writes(self.backend.location)
        while True:
            head = self.backend.get_head(loop)
            newest = self.manifest(head.manifest) if head and head.manifest else None
            if newest is not None:
                newest.check_owner(program, schema, self.backend.location)
                if check is not None:
                    check(newest)
            if self._raise_epoch(loop, head):
                return newest

    def renew_claim(self, loop: str) -> None:
        """Claim a loop again after a commit whose outcome is unknown, as its answer was lost.

        On return that commit has taken effect, or never will.

        Raises:
            FencedError: another driver claimed the loop since.
        """
        while loop in self._claims:
            head = self.backend.get_head(loop)
            if head is None or head.epoch not in self._epochs[loop]:
                raise self._fenced(loop)
            if self._raise_epoch(loop, head):
                return

    def _raise_epoch(self, loop: str, head: Head | None) -> bool:
        """Claim a loop whose head is `head`; False if it has another one by now."""
        claim = replace(head or Head("", -1, 0), epoch=new_epoch(head))
        self._epochs.setdefault(loop, set()).add(claim.epoch)
        if not self.backend.swap_head(loop, head, claim):
            return False
        self._claims[loop], self._epochs[loop] = claim, {claim.epoch}
        return True

    def _fenced(self, loop: str) -> FencedError:
        del self._claims[loop]
        return FencedError(
            f"another driver took over loop {loop!r}, so this run stops: its commits are "
            "kept, start it again to continue from the newest version"
        )

    def commit(
        self,
        loop: str,
        *,
        iteration: int,
        segments: Iterable[SegmentRef],
        schema: Any = None,
        program: str | None = None,
        aggregates: Mapping[str, Any] | None = None,
        statistics: Mapping[str, Any] | None = None,
        offsets: Mapping[str, Any] | None = None,
        parent: Manifest | None = None,
        partitions: int | None = None,
        ids: str | None = None,
        content: Manifest | None = None,
        put: Iterable[EncodedSegment] = (),
        defer: Callable[[Callable[[], Manifest]], object] | None = None,
    ) -> Manifest:
        """Make the segments the loop's newest version; on return it is durable.

        The first commit of a store to a loop claims it, unless `claim` was called.

        Args:
            iteration: the version's iteration, not less than the parent's. A version at the
                parent's iteration replaces the parent.
            segments: from `put_segment`. They are added to the parent's version, where they
                replace what their kinds say.
            schema, program: default to the parent's.
            parent: the version this builds on, which must be the loop's newest; None starts the
                loop anew: the commit drops its earlier versions.
            partitions, ids: the number of partitions and "int" or "str"; default to the parent's,
                or to what the segments show and "int".
            content: add the segments to this version, not to the parent's, as a merge does.
            put: those of the segments that are not in the store yet. They are stored in the same
                step as the version, which is faster than one after the other.
            aggregates, statistics, offsets: any JSON, stored in the manifest.
            defer: takes the function that commits, to call it later; what that returns has another
                name if the loop was compacted meanwhile. Until then nothing is durable.

        Returns:
            The manifest of the new version.

        Raises:
            FencedError: another driver claimed the loop since; nothing changed.
            OwnerError: as `claim`.
            StateInputError: the iteration is before the parent's, or the parent is not the newest.
            MissingError: a segment was garbage-collected; the loop stays at its parent.
            FullError: the backend is full; the loop stays at its parent.
        """
        if loop not in self._claims:
            self.claim(loop, program=program, schema=schema)
        if parent is not None:
            self._check_newest(loop, parent)
            parent.check_owner(program, schema, self.backend.location)
        if iteration < (parent.iteration if parent else 0):
            raise StateInputError(f"loop {loop!r} cannot go back to iteration {iteration}: fork it")
        added = tuple(segments)
        below = content or parent
        now = self.backend.now()
        manifest = Manifest(
            name=new_attempt(now),
            loop=loop,
            iteration=iteration,
            parent=parent.name if parent else None,
            partitions=partitions or _partitions(below, added),
            ids=ids or (below.ids if below else "int"),
            program=program or (below.program if below else None),
            schema=schema if schema is not None or below is None else below.schema,
            aggregates=dict(aggregates or {}),
            statistics=dict(statistics or {}),
            offsets=dict(offsets or {}),
            segments=added,
            complete=False,
            depth=parent.depth + 1 if parent else 0,
            created=now,
        )
        completed, refs = self._completed(manifest, parent, content)
        publish = functools.partial(
            self._publish, manifest, completed, refs, parent, content, tuple(put)
        )
        if defer is None:
            return publish()
        self.expect(completed, refs)
        defer(publish)
        return completed

    def fork(self, source: str, name: str, at: int | None = None) -> Manifest:
        """Create loop `name` at a version of `source`, at the cost of a pointer.

        Args:
            at: an iteration of `source`, or the newest version before it; None for the newest.

        Returns:
            The version, which is the newest of both loops.

        Raises:
            StateInputError: no such version, or `name` exists.
        """
        check_name(name)
        manifest = self.version(source, at)
        head = Head(manifest.name, manifest.iteration, new_epoch())
        try:
            created = self.backend.swap_head(name, None, head)
        except StateError:
            with suppress(StateError):  # it may be there, and would never be deleted
                self.backend.drop_head(name, head)
            raise
        if not created:
            raise StateInputError(f"there is a loop {name!r} already: choose another name")
        retained = self.backend.floor(source, manifest.iteration)
        if retained != (manifest.iteration, manifest.name):  # a sweep may not have seen the head
            self.backend.drop_head(name, head)
            return self.fork(source, name, at)
        return manifest

    def merge(self, branch: str, into: str, iteration: int | None = None) -> Manifest:
        """Make the newest version of `branch` the newest of `into`, at the cost of a pointer.

        The branch does not change.

        Args:
            iteration: the new version's iteration; defaults to the smallest possible. A branch of
                a loop with delay bound B whose frontier is τ merges at τ + B.

        Raises:
            StateInputError: no such loops, or `into` has changed since the branch was forked.
            OwnerError: they belong to different programs.
        """
        theirs = self.version(branch)
        ours = self.claim(into, program=theirs.program, schema=theirs.schema)
        if ours is None:
            raise self.unknown_loop(into)
        if not self._descends(theirs, ours.name):
            raise StateInputError(
                f"loop {into!r} has changed since {branch!r} was forked from it: fork again, so "
                "that nothing that was committed meanwhile is lost"
            )
        at = max(ours.iteration + 1, theirs.iteration) if iteration is None else iteration
        return self.commit(
            into,
            iteration=at,
            segments=[],
            parent=ours,
            content=theirs,
            aggregates=theirs.aggregates,
            statistics=theirs.statistics,
            offsets=ours.offsets,
        )

    def compact(self, loop: str, deltas: int = 1) -> Manifest:
        """Replace base and deltas of the newest version by an equal base.

        Older versions keep their deltas. A driver that commits meanwhile is not disturbed: its
        commit builds on the compacted version. Partitions with pickled objects are not compacted,
        because that would unpickle them.

        Args:
            deltas: only compact partitions with at least so many.

        Returns:
            The newest version.

        Raises:
            StateInputError: no such loop.
            MissingError, CorruptError: as `segment`.
        """
        while True:
            head = self.backend.get_head(loop)
            if head is None or not head.manifest:
                raise self.unknown_loop(loop)
            manifest = self.manifest(head.manifest)
            stacks = [
                refs
                for _, refs in layers_by_partition(self.segments(manifest))
                if len(refs) > max(deltas, 1) and refs[0].kind == "base"
                if not any(t.is_pickled(n) for t in map(self.table, refs) for n in t.names)
            ]
            if not stacks:
                return manifest
            replaced = {ref.key for refs in stacks for ref in refs}
            bases = [self._put_compacted(loop, manifest, refs) for refs in stacks]
            others = [ref for ref in self.segments(manifest) if ref.key not in replaced]
            compacted = replace(
                manifest,
                name=new_attempt(self.backend.now()),
                segments=(*others, *bases),
                complete=True,
                depth=0,
            )
            new = replace(head, manifest=compacted.name)
            if compacted.publish(self.backend, loop, head, new, bases):
                self._manifests.put(compacted.name, compacted)
                self.sweep([manifest.name])
                return compacted
            self.backend.delete_unreferenced([ref.key for ref in bases])  # the loop changed: again

    def copy(
        self, loop: str, target: Store, name: str | None = None, *, newest: bool = False
    ) -> Copied:
        """Copy a loop to another store, on any backend: all retained versions, or the newest.

        Every segment is checked before it is written.

        Args:
            name: the loop's name in `target`; defaults to the same name.

        Returns:
            How much was copied.

        Raises:
            StateInputError: no such loop here, or the target has one of that name.
            MissingError, CorruptError: as `segment`.
        """
        return copy_loop(self, loop, target, name or loop, newest=newest)

    def show(self, loop: str) -> bool:
        """Make the newest version readable by SQL, if the backend supports that.

        A store used as a context manager does this at its end, for each loop that it committed to.

        Returns:
            Whether the backend supports it.

        Raises:
            StateInputError: no such loop.
        """
        return show(self, loop)

    def delete(self, loop: str) -> None:
        """Delete the loop, and everything in it that no other loop shares.

        Raises:
            StateInputError: no such loop.
        """
        wait_for_writes(self.backend.location)
        head = self.backend.get_head(loop)
        if head is None:
            raise self.unknown_loop(loop)
        dropped = [name for _, name in self.backend.list_versions(loop)]
        while not self.backend.drop_head(loop, head):
            head = self.backend.get_head(loop)
            if head is None:
                return
        self._claims.pop(loop, None)
        self.sweep(dropped)

    def prune(self, loop: str, keep: int | Iterable[int] = 1) -> list[int]:
        """Drop versions; a reader in the middle of a dropped version gets a `MissingError`.

        Args:
            keep: how many of the newest to keep, or which iterations beside the newest.

        Returns:
            The iterations that were dropped.
        """
        versions = self.backend.list_versions(loop)
        if isinstance(keep, int):
            retained = {iteration for iteration, _ in versions[-max(keep, 1) :]}
        else:
            retained = {*keep, *(iteration for iteration, _ in versions[-1:])}
        dropped = [(iteration, name) for iteration, name in versions if iteration not in retained]
        self.backend.forget_versions(loop, [iteration for iteration, _ in dropped])
        self.sweep([name for _, name in dropped])
        return [iteration for iteration, _ in dropped]

    def sweep(self, dropped: Iterable[str]) -> None:
        """Delete manifests of dropped versions, and what only they refer to."""
        sweep(self, dropped)

    def collect(self, grace: float = 3600.0, *, alone: bool = False) -> Collected:
        """Delete what no version or lease refers to and is older than `grace` seconds.

        Args:
            grace: longer than any run takes from writing a segment to committing it.
            alone: no other process uses the store now, so any grace period is safe.

        Returns:
            How much was deleted.

        Raises:
            StateInputError: a grace of less than two minutes, and not `alone`.
        """
        if grace < _MIN_GRACE and not alone:
            raise StateInputError(
                f"a grace period of {grace:g} s would delete what runs are about to commit: give "
                f"{_MIN_GRACE:g} s or more, or stop all runs and pass alone=True"
            )
        wait_for_writes(self.backend.location)
        return collect(self, grace)

    def verify(self) -> list[str]:
        """Read every version, and return a line for each segment that is missing or corrupt."""
        result = self.audit()
        return [*result.missing, *result.corrupt]

    def audit(self) -> Audit:
        """Read and check everything that is stored; also list what no version refers to."""
        wait_for_writes(self.backend.location)
        self.forget_tables()
        return audit(self)

    def diff(self, older: tuple[str, int | None], newer: tuple[str, int | None]) -> Difference:
        """The difference between two versions, each a pair (loop, iteration or None).

        Raises:
            StateInputError: no such version.
            MissingError, CorruptError, StateError: as `segment`.
        """
        return compare(self, self.version(*older), self.version(*newer))

    @contextmanager
    def pin(
        self, loop: str, at: int | None = None, seconds: float = LEASE_SECONDS
    ) -> Iterator[Manifest]:
        """Keep a version readable in this context, even if it is dropped.

        Args:
            at: an iteration, or the newest version before it; None for the newest.
            seconds: after which the version is no longer kept, should this process die.

        Raises:
            StateInputError: no such version.

        Example:
            >>> import numpy as np
            >>> with open_store("memory://pin") as store:
            ...     columns = {"id": np.array([1]), "rank": np.array([0.5])}
            ...     ref = store.put_segment("main", 0, 0, "base", columns)
            ...     _ = store.commit("main", iteration=0, segments=[ref])
            ...     with store.pin("main") as version:
            ...         dict(store.read("main", version))[0]["rank"].tolist()
            [0.5]
        """
        held = self.hold(loop, at, seconds=seconds)
        try:
            yield held.manifest
        finally:
            held.release(self)

    def hold(
        self,
        loop: str,
        at: int | Manifest | None = None,
        *,
        lease: bool = True,
        seconds: float = LEASE_SECONDS,
    ) -> Pin:
        """Keep a version readable until the pin is released.

        Args:
            at: as for `pin`; or a version that is known to be retained.
            lease: write to the store now, so that other processes spare the version at once; else
                only this process does, and the others from about a second later.

        Raises:
            StateInputError: no such version.
            StateError: this user may not write to the store, or it is full.
        """
        address = Address(self.backend.address.reveal(), passed_on=True)
        reopen = functools.partial(open_store, address, create=False)
        while True:
            manifest = at if isinstance(at, Manifest) else self.version(loop, at)
            held = Pin(self, reopen, loop, manifest, seconds)
            try:
                if lease:
                    held.take_lease(self)
                retained = self.backend.floor(loop, manifest.iteration)
                known = isinstance(at, Manifest)
                compacted = self._compacted(manifest, retained) if known else None
            except BaseException:
                held.release(self)
                raise
            if compacted is None and (known or retained == (manifest.iteration, manifest.name)):
                return held
            held.release(self)  # it was compacted, or a sweep may not have seen the pin
            at = compacted or at

    def _compacted(self, manifest: Manifest, retained: tuple[int, str] | None) -> Manifest | None:
        """The version by which `compact` has replaced this one; None if it has not.

        Args:
            manifest: this one.
            retained: iteration and name of the version that the loop has now.
        """
        if retained is None or retained[0] < manifest.iteration or retained[1] == manifest.name:
            return None
        stored = self.manifest(retained[1])
        same = replace(
            stored, name=manifest.name, segments=manifest.segments, complete=manifest.complete,
            depth=manifest.depth,
        )  # fmt: skip
        return stored if same == manifest else None

    def _publish(
        self,
        added: Manifest,
        manifest: Manifest,
        segments_of_version: list[SegmentRef],
        parent: Manifest | None,
        content: Manifest | None,
        put: Sequence[EncodedSegment],
    ) -> Manifest:
        """Commit a version.

        Args:
            added: its manifest, with the segments that were added.
            manifest, whole: what `_whole` returned for it.
            put: segments that are stored with it.
        """
        loop, iteration = added.loop, added.iteration
        while True:
            head = self._claims[loop]
            restart = parent is None and bool(head.manifest)
            dropped = self.backend.list_versions(loop) if restart else []
            new = Head(manifest.name, iteration, head.epoch)
            required = manifest if content else added  # the parent's version refers to its own
            segments = required.segments
            if manifest.publish(self.backend, loop, head, new, segments, put, restart=restart):
                break
            current = self.backend.get_head(loop)
            if current is None or current.epoch != head.epoch:
                raise self._fenced(loop)
            self._claims[loop] = current  # the version was compacted: an equal one is newest
            newest = self.manifest(current.manifest) if current.manifest else None
            if newest is not None and newest.is_compacted(manifest):  # so it was committed
                manifest, segments_of_version, new = newest, self.segments(newest), current
                break
            if parent is not None:
                parent = self.manifest(current.manifest)
                depth = parent.depth + 1
                name = new_attempt(self.backend.now())
                added = replace(added, name=name, parent=parent.name, depth=depth)
                manifest, segments_of_version = self._completed(added, parent, content)
        self._claims[loop] = new
        self.expect(manifest, segments_of_version)
        if parent is not None and parent.iteration == iteration:
            dropped = [(iteration, parent.name)]
        self.sweep([name for _, name in dropped])
        return manifest

    def _check_newest(self, loop: str, parent: Manifest) -> None:
        head = self._claims[loop]
        if parent.name == head.manifest:
            return
        current = self.backend.get_head(loop)
        if current is None or current.epoch != head.epoch:
            raise self._fenced(loop)
        if current.manifest != parent.name:
            raise StateInputError(
                f"version {parent.iteration} of loop {loop!r} is not its newest: commit on "
                "store.head(loop), or fork it first"
            )
        self._claims[loop] = current  # it was compacted

    def _completed(
        self, manifest: Manifest, parent: Manifest | None, content: Manifest | None
    ) -> tuple[Manifest, list[SegmentRef]]:
        """The manifest with all segments of its version, if they are few or its chain is long.

        Returns:
            The manifest, and all segments of its version.
        """
        below = content or parent
        existing = self.segments(below) if below else []
        refs = live_segments(existing, manifest.segments, manifest.partitions)
        short = len(refs) <= 2 * len(manifest.segments) + 8
        if parent and not content and manifest.depth < MAX_CHAIN and not short:
            return manifest, refs
        return replace(manifest, segments=tuple(refs), complete=True, depth=0), refs

    def _put_compacted(self, loop: str, manifest: Manifest, refs: list[SegmentRef]) -> SegmentRef:
        """Store the base that equals a base and its deltas."""
        first = refs[0]
        columns = overlay([self.segment(ref) for ref in refs])
        if "name.offsets" in self.table(first) and "name.offsets" not in columns:
            raise StateInputError(
                f"loop {loop!r}: its deltas have no names where its base has: commit a base instead"
            )
        return self.put_segment(
            loop, first.key.partition, manifest.iteration, "base", columns, group=first.group
        )

    def _descends(self, manifest: Manifest, ancestor: str) -> bool:
        met = set[str]()
        while manifest.name != ancestor:
            if manifest.parent is None or manifest.name in met:
                return False
            met.add(manifest.name)
            try:
                manifest = self.manifest(manifest.parent)
            except MissingError:  # dropped, so it is not a version of any loop
                return False
        return True


def _partitions(parent: Manifest | None, added: tuple[SegmentRef, ...]) -> int:
    if parent is not None:
        return parent.partitions
    return 1 + max((ref.key.partition for ref in added), default=0)


# Copying a loop to another store on any backend: versions with all that they refer to.
#
# Segments and manifests keep their names, so what the target already has is not copied again,
# loops continue to share segments, and an interrupted copy continues where it stopped.

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Copied:
    """The number of versions of the new loop, and the segments and bytes copied for them."""

    versions: int
    segments: int
    bytes: int


def copy_loop(
    source: VersionReader, loop: str, target: VersionReader, name: str, *, newest: bool
) -> Copied:
    """Make loop `name` of `target` equal to `loop` of `source`."""
    check_name(name)
    if target.backend.get_head(name) is not None:
        raise StateInputError(
            f"there is a loop {name!r} in {target.backend.location} already: choose another name"
        )
    versions = source.backend.list_versions(loop)
    if not versions:
        raise source.unknown_loop(loop)
    versions = versions[-1:] if newest else versions
    with ExitStack() as leases:
        names = [version for _, version in versions]
        leases.enter_context(closing(Lease(source.backend, _HOUR, names)))
        manifests = [source.manifest(version) for version in names]
        wanted = {ref.key: ref for manifest in manifests for ref in source.segments(manifest)}
        links = {link.name: link for manifest in manifests for link in source.chain(manifest)}
        leases.enter_context(closing(Lease(target.backend, _HOUR, links, wanted)))
        present = set(target.backend.list_segments())
        copied = [ref for ref in wanted.values() if ref.key not in present]
        for ref in copied:
            source.check_segment(ref)
            pieces = source.backend.get_segment(ref.key)
            if pieces is None:
                raise MissingError(f"segment {ref.key} was dropped while it was copied")
            target.backend.put_segment(ref.key, [piece.data for piece in pieces])
        for link in links.keys() - target.backend.list_manifests():
            manifest = links[link]
            target.backend.put_manifest(link, manifest.encode(), manifest.references)
        head: Head | None = None
        epoch = new_epoch()
        for manifest in manifests:
            new = Head(manifest.name, manifest.iteration, epoch)
            if not manifest.publish(target.backend, name, head, new, source.segments(manifest)):
                raise StateInputError(f"another process created loop {name!r}: choose another name")
            head = new
    return Copied(len(versions), len(copied), sum(ref.bytes for ref in copied))
