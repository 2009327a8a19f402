"""Reading versions: which segments make one, its state as arrays, single vertices, and what no
version needs any more.

Immutable things are cached by name: manifests, lists of segments, and opened segments. A cached
segment holds no copy where the backend gives views.
"""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from vertexsdk.encoded import Column, CorruptError, Table
from vertexsdk.state.contract import Backend, SegmentKey
from vertexsdk.state.errors import MissingError, StateInputError
from vertexsdk.state.manifests import Manifest, SegmentRef, live
from vertexsdk.state.reading import NAME_COLUMNS, find_ids, find_names, overlay

__all__ = ["Snapshots"]

K = TypeVar("K")
V = TypeVar("V")
_stores: weakref.WeakSet[Snapshots] = weakref.WeakSet()


class Snapshots:
    """The reading half of a `Store`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._manifests: _Cache[str, Manifest] = _Cache(256)
        self._lists: _Cache[str, list[SegmentRef]] = _Cache(8)
        self._tables: _Cache[SegmentKey, Table] = _Cache(256)
        _stores.add(self)

    def close(self) -> None:
        """Let go of the backend; arrays that were read stay valid."""
        self._tables.clear()
        self.backend.close()

    def loops(self) -> list[str]:
        """The names of the loops that have a version, ascending."""
        return [loop for loop in self.backend.list_heads() if self.versions(loop)]

    def versions(self, loop: str) -> list[int]:
        """The iterations of the loop's retained versions, ascending."""
        return [iteration for iteration, _ in self.backend.list_versions(loop)]

    def head(self, loop: str) -> Manifest | None:
        """The loop's newest version, or None."""
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
                raise self.unknown(loop)
            return newest
        found = self.backend.floor(loop, at)
        if found is None:
            versions = self.versions(loop)
            if not versions:
                raise self.unknown(loop)
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
            with self._naming(ref):
                found = Table(pieces)
                if found.schema != ref.schema or found.size != ref.bytes:
                    raise CorruptError("another segment is stored in its place")
            self._tables.put(ref.key, found)
        return found

    def segment(self, ref: SegmentRef, *, trusted: bool = False) -> dict[str, Column]:
        """All columns of a segment, checked; read-only views where the backend gives views.

        Raises:
            MissingError, CorruptError: it is not there, or not what was written.
            StateError: pickled columns, and not `trusted`.
        """
        table = self.table(ref)
        with self._naming(ref):
            return {n: table.column(n, verify=True, trusted=trusted) for n in table.names}

    def read(
        self,
        loop: str,
        at: int | Manifest | None = None,
        *,
        group: str | None = None,
        trusted: bool = False,
    ) -> Iterator[tuple[int, dict[str, Column]]]:
        """The state of a version: `(partition, columns)` for each partition (and group), checked.

        The columns are "id" (int64[n], ascending), the state's fields, and "name.offsets",
        "name.bytes" where vertices have names.

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
            yield partition, overlay([self.segment(ref, trusted=trusted) for ref in refs])

    def lookup(
        self,
        loop: str,
        ids: Sequence[int] | Sequence[str] | NDArray[np.int64],
        at: int | Manifest | None = None,
        *,
        fields: Sequence[str] | None = None,
        trusted: bool = False,
    ) -> dict[Any, dict[str, Any]]:
        """The state of single vertices, found without a scan: id → field → value.

        Args:
            ids: integers, or names where the loop's vertices have names.
            fields: only these.

        Returns:
            Those of the ids that there are; scalars are Python values, vectors arrays.

        Raises:
            StateInputError: no such version, or ids of the wrong type.
            MissingError, CorruptError, StateError: as `segment`.
        """
        manifest = at if isinstance(at, Manifest) else self.version(loop, at)
        wanted: list[Any] = [i.item() if isinstance(i, np.generic) else i for i in ids]
        kind: type = str if manifest.ids == "str" else int
        for i in wanted:
            if type(i) is not kind or (type(i) is int and not -(1 << 63) <= i < 1 << 63):
                raise StateInputError(
                    f"vertex {i!r}: the vertices of loop {loop!r} have "
                    f"{'names' if kind is str else 'integer ids of 64 bits'}"
                )
        remaining = dict.fromkeys(wanted)
        found: dict[Any, dict[str, Any]] = {}
        owners = _owners(list(remaining), manifest) if kind is int else {}
        for ref in reversed(self.segments(manifest)):
            if ref.kind not in ("base", "delta") or not remaining:
                continue
            mine = [i for i in remaining if owners.get(i, ref.key.partition) == ref.key.partition]
            if not mine:
                continue
            table = self.table(ref)
            with self._naming(ref):
                rows = find_names(table, mine) if kind is str else _rows(table, mine)
                names = [n for n in table.names if n != "id" and n not in NAME_COLUMNS]
                for i, row in zip(mine, rows, strict=True):
                    if row >= 0:
                        found[i] = {
                            name: table.row(name, row, trusted=trusted)
                            for name in names
                            if fields is None or name in fields
                        }
                        del remaining[i]
        return {i: found[i] for i in dict.fromkeys(wanted) if i in found}

    def verify(self) -> list[str]:
        """Everything that versions need, walked and checked: one line per thing amiss."""
        problems: list[str] = []
        seen: set[SegmentKey] = set()
        self._tables.clear()
        for loop in self.backend.list_heads():
            for iteration, name in self.backend.list_versions(loop):
                try:
                    refs = self.segments(self.manifest(name))
                except (CorruptError, MissingError) as error:
                    problems.append(f"loop {loop!r}, iteration {iteration}: {error}")
                    continue
                for ref in refs:
                    if ref.key not in seen:
                        seen.add(ref.key)
                        problems += self._problems(ref)
        return problems

    def statistics(self) -> dict[str, Any]:
        """`bytes`: what the store takes where it is kept; and what else the backend tells."""
        return self.backend.statistics()

    def sweep(self, dropped: Iterable[str]) -> None:
        """Delete what only the manifests named needed, now that no version names them."""
        names = set(dropped)
        if not names:
            return
        needed, used = self._reachable(
            name
            for loop in self.backend.list_heads()
            for _, name in self.backend.list_versions(loop)
        )
        chains, unused = self._reachable(names)
        self.backend.delete_manifests(sorted(chains - needed))
        self._tables.clear()
        self.backend.delete_segments(sorted(unused - used))

    def unknown(self, loop: str) -> StateInputError:
        """The error that says which loops there are."""
        loops = self.loops()
        known = ", ".join(map(repr, loops[:10])) if loops else "none"
        return StateInputError(
            f"there is no loop {loop!r} in {self.backend.location}: it has {known}"
        )

    def _reachable(self, names: Iterable[str]) -> tuple[set[str], set[SegmentKey]]:
        manifests: set[str] = set()
        segments: set[SegmentKey] = set()
        for first in names:
            name: str | None = first
            while name is not None and name not in manifests:
                manifests.add(name)
                try:
                    manifest = self.manifest(name)
                except MissingError:
                    break
                segments.update(ref.key for ref in manifest.segments)
                name = None if manifest.complete else manifest.parent
        return manifests, segments

    def _problems(self, ref: SegmentRef) -> list[str]:
        try:
            table = self.table(ref)
            with self._naming(ref):
                for name in table.stored:
                    table.check(name)
        except (CorruptError, MissingError) as error:
            return [str(error)]
        return []

    @contextmanager
    def _naming(self, ref: SegmentRef) -> Iterator[None]:
        try:
            yield
        except CorruptError as error:
            raise CorruptError(
                f"segment {ref.key} in {self.backend.location} is damaged: {error}; fork the loop "
                "at an earlier version, or run it again"
            ) from error


class _Cache(Generic[K, V]):
    """The `limit` values used last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._limit:
            self._values.popitem(last=False)

    def clear(self) -> None:
        self._values.clear()


def _forget_tables_in_child() -> None:
    for store in list(_stores):
        store._tables.clear()  # they are views of what the parent opened


os.register_at_fork(after_in_child=_forget_tables_in_child)


def _owners(ids: list[int], manifest: Manifest) -> dict[int, int]:
    from vertexsdk.partition import owner

    owners = owner(np.array(ids, np.int64), manifest.partitions)
    return dict(zip(ids, owners.tolist(), strict=True))


def _rows(table: Table, ids: list[int]) -> list[int]:
    rows: list[int] = find_ids(table, np.array(ids, np.int64)).tolist()
    return rows
