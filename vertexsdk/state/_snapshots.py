"""Reading versions: which segments make one, its state as arrays, and single vertices.

Immutable things are cached by name: manifests, lists of segments, and opened segments. A cached
segment holds no copy where the backend gives views.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.column_table import Column, CorruptError, Table, damaged
from vertexsdk.state._caches import Cache
from vertexsdk.state._lookup import find_vertices
from vertexsdk.state._remote_segment import LARGE, RemoteTable
from vertexsdk.state._validation import check_name
from vertexsdk.state.contract import Backend, CanReadParts, SegmentKey
from vertexsdk.state.errors import MissingError, StateInputError
from vertexsdk.state.manifests import Manifest, SegmentRef, live
from vertexsdk.state.reading import NAME_COLUMNS, TOMBSTONE, overlay, refuse_pickled

__all__ = ["Snapshots"]

_ROOM = 1 << 29  # bytes of segments; those of LMDB are views and take none
_stores: weakref.WeakSet[Snapshots] = weakref.WeakSet()


class Snapshots:
    """The reading half of a `Store`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._manifests: Cache[str, Manifest] = Cache(2048)
        self._lists: Cache[str, list[SegmentRef]] = Cache(8)
        self._tables: Cache[SegmentKey, Table] = Cache(256, _ROOM)
        self._remote: Cache[SegmentKey, RemoteTable] = Cache(64)
        _stores.add(self)

    def close(self) -> None:
        """Let go of the backend; arrays that were read stay valid."""
        self.forget_tables()
        self.backend.close()

    def loops(self) -> list[str]:
        """The names of the loops that have a version, ascending."""
        return [loop for loop in self.backend.list_heads() if self.versions(loop)]

    def versions(self, loop: str) -> list[int]:
        """The iterations of the loop's retained versions, ascending."""
        check_name(loop)
        return [iteration for iteration, _ in self.backend.list_versions(loop)]

    def head(self, loop: str) -> Manifest | None:
        """The loop's newest version, or None."""
        check_name(loop)
        head = self.backend.get_head(loop)
        return self.manifest(head.manifest) if head and head.manifest else None

    def version(self, loop: str, at: int | None = None) -> Manifest:
        """The newest version of the loop, or the newest at or before iteration `at`.

        Raises:
            StateInputError: there is none; says what there is.
        """
        if at is None:
            newest = self.head(loop)
            if newest is None:
                raise self.unknown_loop(loop)
            return newest
        check_name(loop)
        found = self.backend.floor(loop, at)
        if found is None:
            versions = self.versions(loop)
            if not versions:
                raise self.unknown_loop(loop)
            raise StateInputError(
                f"loop {loop!r} has no version at or before iteration {at}: the oldest that is "
                f"kept is {versions[0]}"
            )
        return self.manifest(found[1])

    def manifest(self, name: str) -> Manifest:
        """The manifest of that name.

        Raises:
            MissingError, CorruptError: it is not there, or not what was written.
        """
        found = self._manifests.get(name)
        if found is None:
            data = self.backend.get_manifest(name)
            if data is None:
                raise MissingError(
                    f"manifest {name} is missing in {self.backend.location}: the version was "
                    "dropped while it was read, or the store is damaged"
                )
            found = Manifest.decode(name, data)
            self._manifests.put(name, found)
        return found

    def remember(self, manifest: Manifest) -> None:
        """Keep a manifest that was just written."""
        self._manifests.put(manifest.name, manifest)

    def segments(self, manifest: Manifest) -> list[SegmentRef]:
        """The segments that make this version, in the order in which they are laid over."""
        found = self._lists.get(manifest.name)
        if found is None:
            chain = [manifest]
            known = None
            while not chain[-1].complete and known is None and chain[-1].parent is not None:
                chain.append(self.manifest(chain[-1].parent))
                known = self._lists.get(chain[-1].name)
            found = list(known or [])
            for link in reversed(chain if known is None else chain[:-1]):
                found = live(found, link.segments)
            self._lists.put(manifest.name, found)
        return list(found)

    def table(self, ref: SegmentRef) -> Table:
        """A segment, opened: columns are read and checked when asked for.

        Raises:
            MissingError, CorruptError: it is not there, or not what was written.
        """
        found = self._tables.get(ref.key)
        if found is None:
            pieces = self.backend.get_segment(ref.key)
            if pieces is None:
                raise MissingError(
                    f"segment {ref.key} is missing in {self.backend.location}: its version was "
                    "dropped while it was read, or the store is damaged"
                )
            with self.naming_segment(ref):
                found = Table(pieces)
                if found.schema != ref.schema or found.size != ref.bytes:
                    raise CorruptError("another segment is stored in its place")
                if ref.kind in ("base", "delta"):
                    found.check_rows()
            self._tables.put(ref.key, found, ref.bytes)
        return found

    def point_table(self, ref: SegmentRef) -> Table:
        """A segment, opened for a few rows: of a large one on a server only they are fetched.

        Raises:
            MissingError, CorruptError: as `table`.
        """
        backend = self.backend
        known = self._tables.get(ref.key) or self._remote.get(ref.key)
        if known is not None or ref.bytes < LARGE or not isinstance(backend, CanReadParts):
            return known or self.table(ref)
        read = backend.open_segment(ref.key)
        if read is None:
            return self.table(ref)
        with self.naming_segment(ref):
            found = RemoteTable(read, ref.bytes)
            if ref.kind in ("base", "delta"):
                found.check_rows()
        if found.schema != ref.schema:
            return self.table(ref)
        self._remote.put(ref.key, found)
        return found

    def segment(
        self,
        ref: SegmentRef,
        *,
        fields: Collection[str] | None = None,
        trusted: bool = False,
        objects: Collection[str] | None = None,
    ) -> dict[str, Column]:
        """The columns of a segment, checked; read-only views where the backend gives views.

        Of its fields only those named in `fields`, if it is given; ids and names always. Only
        those named in `objects`, if it is given, may be pickled.

        Raises:
            MissingError, CorruptError: it is not there, or not what was written, or pickled where
                it may not be.
            StateError: pickled columns, and not `trusted`.
        """
        table = self.table(ref)
        with self.naming_segment(ref):
            names = [
                n
                for n in table.names
                if fields is None or n in fields or n in ("id", TOMBSTONE, *NAME_COLUMNS)
            ]
            refuse_pickled(table, names, objects)
            return {n: table.column(n, verify=True, trusted=trusted) for n in names}

    def read(
        self,
        loop: str,
        at: int | Manifest | None = None,
        *,
        group: str | None = None,
        fields: Collection[str] | None = None,
        trusted: bool = False,
        objects: Collection[str] | None = None,
    ) -> Iterator[tuple[int, dict[str, Column]]]:
        """The state of a version: `(partition, columns)` for each partition (and group), checked.

        The columns are "id" (int64[n], ascending), the state's fields (only those named in
        `fields`, if it is given), and "name.offsets", "name.bytes" where vertices have names.
        `objects`: as for `segment`.

        Raises:
            StateInputError: no such version.
            MissingError, CorruptError, StateError: as `segment`.
        """
        manifest = at if isinstance(at, Manifest) else self.version(loop, at)
        layers: dict[tuple[int, str], list[SegmentRef]] = {}
        for ref in self.segments(manifest):
            if ref.kind in ("base", "delta") and group in (None, ref.group):
                layers.setdefault((ref.key.partition, ref.group), []).append(ref)
        for (partition, _), refs in sorted(layers.items(), key=lambda item: item[0]):
            opened = [
                self.segment(ref, fields=fields, trusted=trusted, objects=objects) for ref in refs
            ]
            with self.naming_segment(refs[-1]):
                whole = overlay(opened)
            yield partition, whole

    def lookup(
        self,
        loop: str,
        ids: Sequence[int] | Sequence[str] | NDArray[np.int64],
        at: int | Manifest | None = None,
        *,
        fields: Sequence[str] | None = None,
        trusted: bool = False,
        objects: Collection[str] | None = None,
    ) -> dict[Any, dict[str, Any]]:
        """The state of single vertices, found without a scan: id → field → value.

        Args:
            ids: integers, or names where the loop's vertices have names.
            fields: only these.
            objects: as for `segment`.

        Returns:
            Those of the ids that there are; scalars are Python values, vectors arrays.

        Raises:
            StateInputError: no such version, or ids of the wrong type.
            MissingError, CorruptError, StateError: as `segment`.
        """
        manifest = at if isinstance(at, Manifest) else self.version(loop, at)
        return find_vertices(self, manifest, ids, fields=fields, trusted=trusted, objects=objects)

    def statistics(self) -> dict[str, Any]:
        """`bytes`: what the store takes where it is kept; and what else the backend tells."""
        return self.backend.statistics()

    def forget_tables(self) -> None:
        """Let go of opened segments, which would keep what is deleted in place."""
        self._tables.clear()
        self._remote.clear()

    def unknown_loop(self, loop: str) -> StateInputError:
        """The error that says which loops there are."""
        loops = self.loops()
        known = ", ".join(map(repr, loops[:10])) if loops else "none"
        return StateInputError(
            f"there is no loop {loop!r} in {self.backend.location}: it has {known}"
        )

    @contextmanager
    def naming_segment(self, ref: SegmentRef) -> Iterator[None]:
        """Errors about bytes inside name the segment."""
        try:
            with damaged("a column", ""):
                yield
        except CorruptError as error:
            raise CorruptError(
                f"segment {ref.key} in {self.backend.location} is damaged: {error}; fork the loop "
                "at an earlier version, or run it again"
            ) from error


def _forget_tables_in_child() -> None:
    for store in list(_stores):
        store._tables.clear()  # they are views of what the parent opened


os.register_at_fork(after_in_child=_forget_tables_in_child)
