"""The versioned store: any loop's any retained version, at pointer cost, on any backend.

What holds always:

- A commit is *segments durable → manifest → head*. A crash between any two loses nothing that was
  acknowledged, and leaves only garbage that no version refers to.
- Nothing that a version refers to is ever changed. A read of a version gives the same bytes until
  the version is dropped.
- Of two drivers on one loop the one that claimed it last can commit; the other is told so.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from vertexsdk.columns import encode, schema_hash
from vertexsdk.encoded import Column
from vertexsdk.errors import StateError
from vertexsdk.state.contract import LONGEST_NAME, Backend, Head, SegmentKey, new_attempt
from vertexsdk.state.errors import FencedError, OwnerError, StateInputError
from vertexsdk.state.manifests import DEEPEST, KINDS, Kind, Manifest, SegmentRef, live
from vertexsdk.state.reading import with_name_index
from vertexsdk.state.snapshots import Snapshots

__all__ = ["Store", "open_store"]


def open_store(url: str, *, create: bool = True) -> Store:
    """The store named by a URL: `lmdb:///path`, `memory://name`, or another backend's.

    Args:
        create: make it if there is none; a reader says False.

    Raises:
        StateInputError: the URL is wrong, or there is no store.
        StateError: it cannot be opened.

    Example:
        >>> with open_store("memory://example") as store:
        ...     store.loops()
        []
    """
    from vertexsdk.backends import open_backend

    return Store(open_backend(url, create=create))


def _reopen(location: str) -> Store:
    return open_store(location, create=False)


class Store(Snapshots):
    """Loops and their versions in one backend; reading is described in `Snapshots`.

    A store can be pickled: another process of the host gets the same one, opened anew.

    Attributes:
        backend: where everything is kept.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._claims: dict[str, Head] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.backend.location,)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
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
    ) -> SegmentRef:
        """Store columns, durably; called in tasks and in the driver. No version has them yet.

        Args:
            kind: "base" (every vertex of the partition), "delta" (whole rows of those that changed
                since the version it will be committed on), "topology", or "messages".
            columns: of a base or delta, "id" (int64[n], strictly ascending) and one row per vertex
                in every other column. An index is added to "name.offsets" and "name.bytes".
            meta: anything JSON, kept with the segment.
            group: tells segments of one partition apart that stand beside each other.

        Raises:
            StateInputError: a wrong loop name or kind.
            FullError: no room; nothing was stored.
            StateError: columns that cannot be stored.
        """
        check_name(loop)
        if kind not in KINDS:
            raise StateInputError(f"a segment of kind {kind!r}: it must be one of {KINDS}")
        if kind in ("base", "delta"):
            _check_rows(columns)
        stored = with_name_index(dict(columns))
        pieces = encode(stored, meta)
        key = SegmentKey(loop, int(partition), int(iteration), new_attempt())
        self.backend.put_segment(key, pieces)
        rows = len(columns["id"]) if "id" in columns else max(map(len, columns.values()), default=0)
        return SegmentRef(key, kind, group, rows, sum(map(len, pieces)), schema_hash(stored))

    def claim(
        self, loop: str, *, program: str | None = None, schema: Any = None
    ) -> Manifest | None:
        """Take the loop over: from now on only this store can commit to it.

        Args:
            program, schema: who wants to write; None for either is not compared.

        Returns:
            The newest version, or None if the loop is new.

        Raises:
            OwnerError: the loop was written by another program or with other fields.
        """
        check_name(loop)
        while True:
            head = self.backend.get_head(loop)
            newest = self.manifest(head.manifest) if head and head.manifest else None
            if newest is not None:
                self._check_owner(newest, program, schema)
            mine = replace(head, epoch=head.epoch + 1) if head else Head("", -1, 1)
            if self.backend.swap_head(loop, head, mine):
                self._claims[loop] = mine
                return newest

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
    ) -> Manifest:
        """Make the segments the loop's newest version; on return it is durable.

        The first commit of a store to a loop claims it, unless `claim` was called.

        Args:
            iteration: of the version; not less than the parent's. At the parent's iteration it
                takes the parent's place.
            segments: from `put_segment`. With a parent they are laid over its version: a base
                replaces the base and deltas of its partition, a topology the topology.
            schema, program: default to the parent's.
            parent: the version this is built on, which must be the loop's newest; None starts
                the loop anew: when this is committed, what it had before is dropped.
            partitions, ids: the number of partitions and "int" or "str"; default to the parent's,
                or to what the segments show and "int".

        Raises:
            FencedError: another driver claimed the loop since; nothing changed.
            OwnerError: as `claim`.
            StateInputError: the iteration or the parent does not fit.
            FullError: no room; the loop stays at its parent.
        """
        if loop not in self._claims:
            self.claim(loop, program=program, schema=schema)
        head = self._claims[loop]
        if parent is not None and parent.name != head.manifest:
            raise StateInputError(
                f"version {parent.iteration} of loop {loop!r} is not its newest: commit on "
                "store.head(loop), or fork it first"
            )
        if iteration < (parent.iteration if parent else 0):
            raise StateInputError(f"loop {loop!r} cannot go back to iteration {iteration}: fork it")
        added = tuple(segments)
        if parent is not None:
            self._check_owner(parent, program, schema)
        manifest = self._manifest(
            Manifest(
                name=f"{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}",
                loop=loop,
                iteration=iteration,
                parent=parent.name if parent else None,
                partitions=partitions or _partitions(parent, added),
                ids=ids or (parent.ids if parent else "int"),
                program=program or (parent.program if parent else None),
                schema=schema if schema is not None or parent is None else parent.schema,
                aggregates=dict(aggregates or {}),
                statistics=dict(statistics or {}),
                offsets=dict(offsets or {}),
                segments=added,
                complete=False,
                depth=parent.depth + 1 if parent else 0,
                created=time.time(),
            ),
            parent,
        )
        restart = parent is None and bool(head.manifest)
        dropped = self.backend.list_versions(loop) if restart else []
        new = Head(manifest.name, iteration, head.epoch)
        if not self.backend.publish(
            manifest.name, manifest.encode(), loop, head, new, restart=restart
        ):
            del self._claims[loop]
            raise FencedError(
                f"another driver took over loop {loop!r}: this run stops here; what it committed "
                "is kept, start it again to go on from the newest version"
            )
        self._claims[loop] = new
        self.remember(manifest)
        if parent is not None and parent.iteration == iteration:
            dropped = [(iteration, parent.name)]
        self.sweep([name for _, name in dropped])
        return manifest

    def fork(self, source: str, name: str, at: int | None = None) -> Manifest:
        """Make loop `name` stand at a version of `source`; costs a pointer at any size.

        Raises:
            StateInputError: no such version, or `name` exists.
        """
        check_name(name)
        manifest = self.version(source, at)
        if not self.backend.swap_head(name, None, Head(manifest.name, manifest.iteration, 1)):
            raise StateInputError(f"there is a loop {name!r} already: choose another name")
        return manifest

    def delete(self, loop: str) -> None:
        """Forget the loop, and everything in it that no other loop shares.

        Raises:
            StateInputError: no such loop.
        """
        head = self.backend.get_head(loop)
        if head is None:
            raise self.unknown(loop)
        dropped = [name for _, name in self.backend.list_versions(loop)]
        while not self.backend.drop_head(loop, head):
            head = self.backend.get_head(loop)
            if head is None:
                return
        self._claims.pop(loop, None)
        self.sweep(dropped)

    def prune(self, loop: str, keep: int | Iterable[int] = 1) -> list[int]:
        """Drop versions: all but the newest `keep`, or but those iterations and the newest.

        A reader that is in the middle of a dropped version gets a `MissingError`.

        Returns:
            The iterations that were dropped.
        """
        versions = self.backend.list_versions(loop)
        if isinstance(keep, int):
            kept = {iteration for iteration, _ in versions[-max(keep, 1) :]}
        else:
            kept = {*keep, *(iteration for iteration, _ in versions[-1:])}
        dropped = [(iteration, name) for iteration, name in versions if iteration not in kept]
        self.backend.forget_versions(loop, [iteration for iteration, _ in dropped])
        self.sweep([name for _, name in dropped])
        return [iteration for iteration, _ in dropped]

    def _manifest(self, manifest: Manifest, parent: Manifest | None) -> Manifest:
        """The manifest with its whole list, where that is short or the parents are many."""
        whole = live(self.segments(parent) if parent else [], manifest.segments)
        if parent and manifest.depth < DEEPEST and len(whole) > 2 * len(manifest.segments) + 8:
            return manifest
        return replace(manifest, segments=tuple(whole), complete=True, depth=0)

    def _check_owner(self, manifest: Manifest, program: str | None, schema: Any) -> None:
        loop, place = manifest.loop, self.backend.location
        advice = "choose another loop name or --backend, or delete the loop first"
        if None not in (program, manifest.program) and program != manifest.program:
            raise OwnerError(
                f"loop {loop!r} in {place} belongs to program {manifest.program}, not to "
                f"{program}: {advice}"
            )
        if None not in (schema, manifest.schema) and _plain(schema) != manifest.schema:
            raise OwnerError(
                f"loop {loop!r} in {place} was written with other state fields "
                f"({manifest.schema}, now {_plain(schema)}): {advice}"
            )


def check_name(loop: str) -> None:
    """Refuse what cannot be a loop's name on every backend.

    Raises:
        StateInputError: it is empty, longer than 200 bytes of UTF-8, or has control characters.
    """
    try:
        size = len(loop.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= LONGEST_NAME or any(ord(c) < 32 or ord(c) == 127 for c in loop):
        raise StateInputError(
            f"{loop[:40]!r} cannot name a loop: use 1 to {LONGEST_NAME} bytes of UTF-8 without "
            "control characters"
        )


def _check_rows(columns: Mapping[str, Column]) -> None:
    if "id" not in columns or columns["id"].dtype.str != "<i8" or columns["id"].ndim != 1:
        raise StateError('a base or delta segment needs a column "id" of int64')
    ids = columns["id"]
    if not (ids[1:] > ids[:-1]).all():
        raise StateError('the column "id" of a segment must be strictly ascending')
    for name, array in columns.items():
        if not name.startswith("name.") and len(array) != len(ids):
            raise StateError(f"column {name!r} has {len(array)} rows for {len(ids)} ids")


def _partitions(parent: Manifest | None, added: tuple[SegmentRef, ...]) -> int:
    if parent is not None:
        return parent.partitions
    return 1 + max((ref.key.partition for ref in added), default=0)


def _plain(schema: Any) -> Any:
    return json.loads(json.dumps(schema))
