"""Writing versions: segments, claims and commits.

- A commit is *segments durable → manifest → head*. A crash between any two loses nothing that was
  acknowledged, and leaves only garbage that no version refers to.
- Of two drivers on one loop the one that claimed it last can commit; the other is told so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from vertexsdk.arrays.column_codec import encode, schema_hash
from vertexsdk.arrays.column_table import Column
from vertexsdk.state._snapshots import Snapshots
from vertexsdk.state._validation import check_name, check_owner, check_rows
from vertexsdk.state.contract import Backend, Head, SegmentKey, new_attempt
from vertexsdk.state.errors import FencedError, StateInputError
from vertexsdk.state.garbage import sweep
from vertexsdk.state.manifests import DEEPEST, KINDS, Kind, Manifest, SegmentRef, live
from vertexsdk.state.reading import with_name_index

__all__ = ["Commits"]


class Commits(Snapshots):
    """The writing half of a `Store`."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._claims: dict[str, Head] = {}

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
                since the version it will be committed on), "topology", "messages", or "changes".
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
            check_rows(columns)
        stored = with_name_index(dict(columns))
        pieces = encode(stored, meta)
        key = SegmentKey(loop, int(partition), int(iteration), new_attempt(self.backend.now()))
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
        self.backend.check_rights()
        while True:
            head = self.backend.get_head(loop)
            newest = self.manifest(head.manifest) if head and head.manifest else None
            if newest is not None:
                check_owner(newest, program, schema, self.backend.location)
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
        content: Manifest | None = None,
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
            content: lay the segments over this version and not the parent's, as a merge does.

        Raises:
            FencedError: another driver claimed the loop since; nothing changed.
            OwnerError: as `claim`.
            StateInputError: the iteration or the parent does not fit.
            MissingError: a segment was collected before; the loop stays at its parent.
            FullError: no room; the loop stays at its parent.
        """
        if loop not in self._claims:
            self.claim(loop, program=program, schema=schema)
        if parent is not None:
            self._check_newest(loop, parent)
            check_owner(parent, program, schema, self.backend.location)
        if iteration < (parent.iteration if parent else 0):
            raise StateInputError(f"loop {loop!r} cannot go back to iteration {iteration}: fork it")
        added = tuple(segments)
        below = content or parent
        now = self.backend.now()
        plain = Manifest(
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
        return self._publish(plain, parent, content)

    def sweep(self, dropped: Iterable[str]) -> None:
        """Delete what only the manifests named needed, now that no version names them."""
        sweep(self, dropped)

    def _publish(
        self, plain: Manifest, parent: Manifest | None, content: Manifest | None
    ) -> Manifest:
        loop, iteration = plain.loop, plain.iteration
        while True:
            head = self._claims[loop]
            manifest = self._whole(plain, parent, content)
            restart = parent is None and bool(head.manifest)
            dropped = self.backend.list_versions(loop) if restart else []
            new = Head(manifest.name, iteration, head.epoch)
            fresh = manifest if content else plain  # what the parent has, its version holds
            if self.backend.publish(
                manifest.name,
                manifest.encode(),
                loop,
                head,
                new,
                restart=restart,
                references=manifest.references,
                requires=[ref.key for ref in fresh.segments],
            ):
                break
            found = self.backend.get_head(loop)
            if found is None or found.epoch != head.epoch:
                del self._claims[loop]
                raise FencedError(
                    f"another driver took over loop {loop!r}: this run stops here; what it "
                    "committed is kept, start it again to go on from the newest version"
                )
            self._claims[loop] = found  # the version was compacted: an equal one is newest
            if parent is not None:
                parent = self.manifest(found.manifest)
                depth = parent.depth + 1
                name = new_attempt(self.backend.now())
                plain = replace(plain, name=name, parent=parent.name, depth=depth)
        self._claims[loop] = new
        self.remember(manifest)
        if parent is not None and parent.iteration == iteration:
            dropped = [(iteration, parent.name)]
        self.sweep([name for _, name in dropped])
        return manifest

    def _check_newest(self, loop: str, parent: Manifest) -> None:
        head = self._claims[loop]
        if parent.name == head.manifest:
            return
        found = self.backend.get_head(loop)
        if found is None or found.epoch != head.epoch or found.manifest != parent.name:
            raise StateInputError(
                f"version {parent.iteration} of loop {loop!r} is not its newest: commit on "
                "store.head(loop), or fork it first"
            )
        self._claims[loop] = found  # it was compacted

    def _whole(
        self, manifest: Manifest, parent: Manifest | None, content: Manifest | None
    ) -> Manifest:
        """The manifest with its whole list, where that is short or the parents are many."""
        below = content or parent
        whole = live(self.segments(below) if below else [], manifest.segments)
        short = len(whole) <= 2 * len(manifest.segments) + 8
        if parent and not content and manifest.depth < DEEPEST and not short:
            return manifest
        if content:
            whole = [ref for ref in whole if ref.kind != "messages" or ref in manifest.segments]
        return replace(manifest, segments=tuple(whole), complete=True, depth=0)


def _partitions(parent: Manifest | None, added: tuple[SegmentRef, ...]) -> int:
    if parent is not None:
        return parent.partitions
    return 1 + max((ref.key.partition for ref in added), default=0)
