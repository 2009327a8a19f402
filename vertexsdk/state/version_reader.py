"""Reading versions: their manifests and segments, the state as arrays, and single vertices.

Manifests, lists of segments and open segments never change, so they are cached by name. A cached
segment is not a copy where the backend returns views.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import TRAILER, Column, Table, aligned
from vertexsdk.arrays.corruption import CorruptError, damaged
from vertexsdk.arrays.id_hash import hash_partition
from vertexsdk.errors import excerpt
from vertexsdk.state.contract import Backend, CanReadParts, Parts, SegmentKey, check_name
from vertexsdk.state.errors import MissingError, StateInputError
from vertexsdk.state.manifests import (
    MAX_CHAIN,
    EncodedSegment,
    Manifest,
    SegmentRef,
    layers_by_partition,
    live_segments,
)
from vertexsdk.state.reading import (
    FEW,
    NAME_COLUMNS,
    TOMBSTONE,
    Wanted,
    chosen_columns,
    find_ids,
    find_names,
    overlay,
    stack,
)
from vertexsdk.state.stored_columns import Described, accepted
from vertexsdk.state.write_behind import wait_for_writes

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T", bound=Table)
_CACHE_BYTES = 1 << 29  # bytes of segments; those of LMDB are views and take none
_stores: weakref.WeakSet[VersionReader] = weakref.WeakSet()


class LruCache(Generic[K, V]):
    """At most `limit` values of `max_bytes` together; the least recently used is evicted."""

    def __init__(self, limit: int, max_bytes: int = 1 << 62) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.RLock()  # a version may be written by another thread
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, or None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: K, value: V, size: int = 0) -> None:
        """Add a value of `size` bytes; the newest value stays, however large it is."""
        with self._lock:
            self._drop(key)
            self._values[key] = (value, size)
            self._bytes += size
            while len(self._values) > 1 and (
                len(self._values) > self._limit or self._bytes > self._max_bytes
            ):
                self._drop(next(iter(self._values)))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def _drop(self, key: K) -> None:
        _, size = self._values.pop(key, (None, 0))
        self._bytes -= size


class VersionReader:
    """The reading half of a `Store`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._manifests: LruCache[str, Manifest] = LruCache(2048)
        self._lists: LruCache[str, list[SegmentRef]] = LruCache(32)
        self._tables: LruCache[SegmentKey, Table] = LruCache(256, _CACHE_BYTES)
        self._remote: LruCache[SegmentKey, RemoteTable] = LruCache(64)
        self._unwritten: dict[SegmentKey, Sequence[Any]] = {}
        _stores.add(self)

    def close(self) -> None:
        """Close the backend; arrays that were read stay valid."""
        self._unwritten.clear()
        self.forget_tables()
        self.backend.close()

    def loops(self) -> list[str]:
        """The names of the loops that have a version, ascending."""
        wait_for_writes(self.backend.location)
        return [loop for loop in self.backend.list_heads() if self.versions(loop)]

    def versions(self, loop: str) -> list[int]:
        """The iterations of the loop's retained versions, ascending."""
        check_name(loop)
        wait_for_writes(self.backend.location)
        return [iteration for iteration, _ in self.backend.list_versions(loop)]

    def head(self, loop: str) -> Manifest | None:
        """The loop's newest version, or None."""
        check_name(loop)
        wait_for_writes(self.backend.location)
        head = self.backend.get_head(loop)
        return self.manifest(head.manifest) if head and head.manifest else None

    def version(self, loop: str, at: int | None = None) -> Manifest:
        """The newest version of the loop, or the newest at or before iteration `at`.

        Raises:
            StateInputError: no such version; the message names the versions that exist.
        """
        if at is None:
            newest = self.head(loop)
            if newest is None:
                raise self.unknown_loop(loop)
            return newest
        check_name(loop)
        wait_for_writes(self.backend.location)
        version = self.backend.floor(loop, at)
        if version is None:
            versions = self.versions(loop)
            if not versions:
                raise self.unknown_loop(loop)
            raise StateInputError(
                f"loop {loop!r} has no version at or before iteration {at}: the oldest "
                f"retained is {versions[0]}"
            )
        return self.manifest(version[1])

    def manifest(self, name: str) -> Manifest:
        """The manifest with this name.

        Raises:
            MissingError: there is none.
            CorruptError: the stored bytes have changed.
        """
        manifest = self._manifests.get(name)
        if manifest is None:
            data = self.backend.get_manifest(name)
            if data is None:
                raise MissingError(
                    f"manifest {name} is missing in {self.backend.location}: the version was "
                    "dropped while it was read, or the store is damaged"
                )
            manifest = Manifest.decode(name, data)
            self._manifests.put(name, manifest)
        return manifest

    def expect(
        self, manifest: Manifest, refs: list[SegmentRef], unwritten: Iterable[EncodedSegment] = ()
    ) -> None:
        """Know a version that may not be in the backend yet.

        Args:
            refs: all segments of it.
            unwritten: those that may not be in the backend.
        """
        self._manifests.put(manifest.name, manifest)
        self._lists.put(manifest.name, refs)
        self._unwritten.update((segment.ref.key, segment.pieces) for segment in unwritten)

    def chain(self, manifest: Manifest) -> Iterator[Manifest]:
        """The manifest, and those below it that list the other segments of its version."""
        yield manifest
        while (below := self._below(manifest)) is not None:
            manifest = below
            yield manifest

    def _below(self, manifest: Manifest) -> Manifest | None:
        """The manifest that lists the other segments of a version; a chain of them has an end."""
        below = None if manifest.below is None else self.manifest(manifest.below)
        if below is not None and not 0 <= below.depth < manifest.depth <= MAX_CHAIN:
            raise CorruptError(
                f"manifest {manifest.name} is damaged: it is built on {below.name}, which is not "
                "before it; fork the loop at an earlier version, or run it again"
            )
        return below

    def segments(self, manifest: Manifest) -> list[SegmentRef]:
        """The segments of a version, in the order in which they are overlaid."""
        refs = self._lists.get(manifest.name)
        if refs is None:
            below = self._below(manifest)
            inherited = [] if below is None else self.segments(below)
            refs = live_segments(inherited, manifest.segments, manifest.partitions)
            self._lists.put(manifest.name, refs)
        return list(refs)

    def table(self, ref: SegmentRef) -> Table:
        """Open a segment; its columns are read and checked when they are accessed.

        Raises:
            MissingError: the backend no longer has it.
            CorruptError: the stored bytes have changed.
        """
        table = self._tables.get(ref.key)
        if table is None:
            pieces = self._unwritten.get(ref.key) or self.backend.get_segment(ref.key)
            if pieces is None:
                raise MissingError(
                    f"segment {ref.key} is missing in {self.backend.location}: its version was "
                    "dropped while it was read, or the store is damaged"
                )
            table = self._opened(ref, lambda: Table(pieces))
            self._tables.put(ref.key, table, ref.bytes)
        return table

    def point_table(self, ref: SegmentRef) -> Table:
        """A segment, opened for a few rows: of a large one on a server only they are fetched.

        Raises:
            MissingError, CorruptError: as `table`.
        """
        backend = self.backend
        known = self._tables.get(ref.key) or self._remote.get(ref.key)
        small = ref.bytes < LARGE or ref.key in self._unwritten
        if known is not None or small or not isinstance(backend, CanReadParts):
            return known or self.table(ref)
        read = backend.open_segment(ref.key)
        if read is None:
            return self.table(ref)
        table = self._opened(ref, lambda: RemoteTable(read, ref.bytes))
        self._remote.put(ref.key, table)
        return table

    def _opened(self, ref: SegmentRef, open_table: Callable[[], T]) -> T:
        with self.naming_segment(ref):
            table = open_table()
            if table.schema != ref.schema or table.size != ref.bytes:
                raise CorruptError("another segment is stored in its place")
            if ref.kind in ("base", "delta"):
                table.check_rows()
        return table

    def segment(
        self,
        ref: SegmentRef,
        *,
        fields: Collection[str] | None = None,
        trusted: bool = False,
        objects: Collection[str] | None = None,
        described: Mapping[str, Described] | None = None,
    ) -> dict[str, Column]:
        """Read and check the columns of a segment; read-only views where the backend returns views.

        Args:
            fields: read only these, and ids and names; None for all.
            trusted: pickled objects may be read, as all writers to the store are trusted.
            objects: the only columns that may hold pickled objects; None for any.
            described: read only these, and refuse those that are not so; None where nothing but
                an answer is made of them.

        Returns:
            Arrays of shape (n,), or (n, k) for vectors, by column.

        Raises:
            MissingError: the backend no longer has it.
            CorruptError: the stored bytes have changed, or a column must not be pickled.
            StateError: pickled columns, and not `trusted`.
        """
        table = self.table(ref)
        if described is not None:
            fields = described.keys()
            objects = [n for n, one in described.items() if np.dtype(one.dtype) == object]
        with self.naming_segment(ref):
            names = chosen_columns(table, fields, objects)
            columns = {n: table.column(n, verify=True, trusted=trusted) for n in names}
            return columns if described is None else accepted(columns, described)

    def rows(
        self,
        refs: Sequence[SegmentRef],
        wanted: Wanted,
        *,
        fields: Collection[str] | None = None,
        trusted: bool = False,
        objects: Collection[str] | None = None,
    ) -> dict[str, Column]:
        """Read some vertices of a partition; only the blocks that they are in are checked.

        Args:
            refs: the partition's base and deltas, the oldest first.
            fields, trusted, objects: as for `segment`.

        Returns:
            The columns of those that exist, as `read` yields them.

        Raises:
            MissingError, CorruptError, StateError: as `segment`.
        """
        parts = []
        for ref in reversed(refs):
            table = self.point_table(ref) if len(wanted.ids) <= FEW else self.table(ref)
            with self.naming_segment(ref):
                rows = wanted.find(table)
                wanted, rows = wanted.without(rows), rows[rows >= 0]
                if TOMBSTONE in table:
                    rows = rows[~table.take(TOMBSTONE, rows)]
                names = [n for n in chosen_columns(table, fields, objects) if n != TOMBSTONE]
                part = {n: table.take(n, rows, trusted=trusted)
                        for n in names if n not in NAME_COLUMNS}  # fmt: skip
                if NAME_COLUMNS[0] in table:
                    part |= zip(NAME_COLUMNS, table.take_texts("name", rows), strict=True)
                parts.append(part)
        return stack(parts)

    def read(
        self,
        loop: str,
        at: int | Manifest | None = None,
        *,
        fields: Collection[str] | None = None,
        trusted: bool = False,
        objects: Collection[str] | None = None,
    ) -> Iterator[tuple[int, dict[str, Column]]]:
        """Read and check the state of a version.

        Args:
            at: the newest version at or before this iteration, or this one; None for the newest.
            fields, trusted, objects: as for `segment`.

        Yields:
            `(partition, columns)` for each partition and group, ascending. The columns are "id"
            (int64[n], in any order), the fields of the state (n rows each), and "name.offsets",
            "name.bytes" where vertices have names. Without deltas they are views of what is
            stored, where the backend returns views.

        Raises:
            StateInputError: no such version.
            MissingError, CorruptError, StateError: as `segment`.
        """
        manifest = at if isinstance(at, Manifest) else self.version(loop, at)
        for (partition, _), refs in layers_by_partition(self.segments(manifest)):
            layers = [
                self.segment(ref, fields=fields, trusted=trusted, objects=objects) for ref in refs
            ]
            with self.naming_segment(refs[-1]):
                columns = overlay(layers)
            yield partition, columns

    def lookup(
        self,
        loop: str,
        ids: Sequence[int] | Sequence[str] | NDArray[np.int64],
        at: int | Manifest | None = None,
        *,
        fields: Sequence[str] | None = None,
        trusted: bool = False,
        objects: Collection[str] | None = None,
        group: str | None = None,
        ids_of_group: str | None = None,
    ) -> dict[Any, dict[str, Any]]:
        """Read the state of single vertices, each from the rows of its key group.

        Args:
            ids: integers, or names where the loop's vertices have names.
            at: the newest version at or before this iteration, or this one; None for the newest.
            fields, trusted, objects: as for `segment`.
            group: read the segments of this group alone; None for those of all groups.
            ids_of_group: "int" or "str", where the ids of groups differ; None: as `Manifest.ids`.

        Returns:
            id → field → value, without ids that do not exist; scalars are Python values, vectors
            arrays.

        Raises:
            StateInputError: no such version, or ids of the wrong type.
            MissingError, CorruptError, StateError: as `segment`.
        """
        manifest = at if isinstance(at, Manifest) else self.version(loop, at)
        named = (ids_of_group or manifest.ids) == "str"
        wanted = _checked_ids(ids, manifest, named)
        remaining = dict.fromkeys(wanted)
        values: dict[Any, dict[str, Any]] = {}
        owners = {} if named else _owners(list(remaining), manifest)
        layers = [r for r in reversed(self.segments(manifest)) if r.kind in ("base", "delta")]
        layers = [ref for ref in layers if group is None or ref.group == group]
        # First in the partition of their key group; those placed otherwise, or by older versions
        # of vertexsdk, are elsewhere.
        attempts = [(ref, True) for ref in layers] + [(ref, False) for ref in layers if owners]
        for ref, by_hash in attempts:
            if not remaining:
                break
            p = ref.key.partition
            mine = [i for i in remaining if (owners.get(i, p) == p) == by_hash]
            if not mine:
                continue
            table = self.point_table(ref) if len(mine) <= FEW else self.table(ref)
            with self.naming_segment(ref):
                rows = find_names(table, mine) if named else _rows(table, mine)
                names = chosen_columns(table, fields, objects)
                shown = [n for n in names if n not in ("id", TOMBSTONE, *NAME_COLUMNS)]
                removable = TOMBSTONE in table
                for i, row in zip(mine, rows, strict=True):
                    if row >= 0 and removable and table.row(TOMBSTONE, row):
                        del remaining[i]
                    elif row >= 0:
                        values[i] = {name: table.row(name, row, trusted=trusted) for name in shown}
                        del remaining[i]
        return {i: values[i] for i in dict.fromkeys(wanted) if i in values}

    def check_segment(self, ref: SegmentRef) -> None:
        """Check every column of a segment against its checksums.

        Raises:
            MissingError, CorruptError: as `segment`.
        """
        table = self.table(ref)
        with self.naming_segment(ref):
            for name in table.stored:
                table.check(name)

    def forget_tables(self) -> None:
        """Drop open segments, which would keep the space of what is deleted."""
        self._tables.clear()
        self._remote.clear()

    def unknown_loop(self, loop: str) -> StateInputError:
        """The error for an unknown loop; its message lists the loops there are."""
        loops = self.loops()
        known = ", ".join(map(repr, loops[:10])) if loops else "none"
        return StateInputError(
            f"there is no loop {loop!r} in {self.backend.location}: it has {known}"
        )

    @contextmanager
    def naming_segment(self, ref: SegmentRef) -> Iterator[None]:
        """Errors in this context about malformed bytes name the segment."""
        try:
            with damaged("a column", ""):
                yield
        except CorruptError as error:
            raise CorruptError(
                f"segment {ref.key} in {self.backend.location} is damaged: {error}; fork the loop "
                "at an earlier version, or run it again"
            ) from error


def _checked_ids(ids: Iterable[Any], manifest: Manifest, named: bool) -> list[Any]:
    """The ids as Python values of the type that the vertices of a version have."""
    wanted: list[Any] = [i.item() if isinstance(i, np.generic) else i for i in ids]
    kind = str if named else int
    for i in wanted:
        if type(i) is not kind or (type(i) is int and not -(1 << 63) <= i < 1 << 63):
            kinds = "names" if kind is str else "integers of 64 bits"
            raise StateInputError(
                f"{excerpt(i)} is not a vertex of loop {manifest.loop!r}: its ids are {kinds}"
            )
    return wanted


def _owners(ids: list[int], manifest: Manifest) -> dict[int, int]:
    owners = hash_partition(np.array(ids, np.int64), manifest.partitions)
    return dict(zip(ids, owners.tolist(), strict=True))


def _rows(table: Table, ids: list[int]) -> list[int]:
    rows: list[int] = find_ids(table, np.array(ids, np.int64)).tolist()
    return rows


def _forget_tables_in_child() -> None:
    for store in list(_stores):
        caches: list[LruCache[Any, Any]]
        caches = [store._manifests, store._lists, store._tables, store._remote]
        for cache in caches:
            cache._lock = threading.RLock()  # a thread of the parent may hold it
        store._tables.clear()  # they are views of what the parent opened


os.register_at_fork(after_in_child=_forget_tables_in_child)


LARGE = 1 << 20  # bytes from which a segment is worth more than one round trip
_HEAD = 1 << 15  # of a large segment, with its key groups
_MAX_RANGES = 64


class RemoteTable(Table):
    """An open segment that fetches byte ranges on demand and caches the last ones.

    Args:
        read: reads byte ranges of the segment, from `CanReadParts.open_segment`.
        size: bytes of the segment.
    """

    __slots__ = ("_ranges", "_read")

    def __init__(self, read: Parts, size: int) -> None:
        self._read = read
        self.size = size
        ends = [(0, min(_HEAD, size)), (max(size - TRAILER.size, 0), size)]
        self._ranges = {end: _array(raw) for end, raw in zip(ends, read(ends), strict=True)}
        self._open()

    def _stream(self, head: int) -> pa.Buffer:
        """Memory of the segment's size, of which only the pages of the head are used."""
        memory = mmap.mmap(-1, self.size)
        memory[:head] = self._bytes(0, head).tobytes()
        return pa.py_buffer(memory)

    def _bytes(self, low: int, high: int) -> NDArray[np.uint8]:
        for (start, end), data in reversed(self._ranges.items()):
            if start <= low and high <= end:
                return data[low - start : high - start]
        data = _array(self._read([(low, high)])[0])
        self._ranges[low, high] = data
        while len(self._ranges) > _MAX_RANGES:
            del self._ranges[next(iter(self._ranges))]
        return data


def _array(raw: bytes) -> NDArray[np.uint8]:
    return aligned(np.frombuffer(raw, np.uint8))
