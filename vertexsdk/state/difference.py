"""The difference between two versions; segments that they share are not read.

A vertex is the same in both if its id is, wherever it is held: versions may have other partitions,
and where vertices have names, other codes for these.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.state.id_fields import IdFields, names_of
from vertexsdk.state.manifests import Manifest, SegmentRef, layers_by_partition
from vertexsdk.state.reading import NAME_COLUMNS, Wanted, overlay
from vertexsdk.state.version_reader import VersionReader

_NARROW = 16  # elements of a vector, up to which it is quicker to take one after the other


@dataclass(frozen=True, slots=True)
class Difference:
    """The vertices that differ between two versions, ascending.

    Attributes:
        added, removed: the ids that only the newer or only the older version has: int64[n], or
            objects (str) where vertices have names.
        changed: the ids of those whose state differs in a field; NaN equals NaN.
        fields: for each field, how many of `changed` differ in it.
    """

    added: NDArray[Any]
    removed: NDArray[Any]
    changed: NDArray[Any]
    fields: dict[str, int]


def compare(store: VersionReader, older: Manifest, newer: Manifest) -> Difference:
    """The difference; segments that both versions have are not read but for some rows."""
    added, removed, changed = [], [], []
    fields: dict[str, int] = {}
    for match in _matches(store, older, newer, {}):
        added.append(match.newer["id"][match.added])
        removed.append(match.older["id"][match.removed])
        common = match.older["id"][match.rows]
        differ = np.zeros(common.size, np.bool_)
        for name in sorted({*match.older, *match.newer} - {"id"}) if common.size else ():
            here = match.differ(name, unequal)
            fields[name] = fields.get(name, 0) + int(here.sum())
            differ |= here
        changed.append(common[differ])
    return Difference(_sorted(added), _sorted(removed), _sorted(changed), fields)


def changed_rows(
    store: VersionReader, older: Manifest | None, newer: Manifest, **options: Any
) -> tuple[dict[str, Column], dict[str, Column]]:
    """The rows in which two versions differ, at the cost of what was written between them.

    Args:
        older: None compares with a version without vertices.
        options: `fields`, `trusted` and `objects` as for `VersionReader.segment`.

    Returns:
        The rows that only the older version has, and those that only the newer one has, as columns.
        "id" is int64[n], or n names; a vertex whose state differs is in both. NaN equals NaN, and
        0.0 is not -0.0.

    Raises:
        MissingError, CorruptError, StateError: as `VersionReader.segment`.
    """
    lost: list[dict[str, Column]] = []
    gained: list[dict[str, Column]] = []
    for match in _matches(store, older, newer, options):
        differ = np.zeros(match.rows.size, np.bool_)
        for name in ({*match.older, *match.newer} - {"id"}) if differ.size else ():
            differ |= match.differ(name, unequal_bits)
        for parts, side, alone, common in (
            (lost, match.older, match.removed, match.rows),
            (gained, match.newer, match.added, match.places),
        ):
            rows = np.concatenate([alone, common[differ]])
            parts.append({name: column[rows] for name, column in side.items()})
    return _stacked(lost), _stacked(gained)


@dataclass(frozen=True, slots=True)
class _Match:
    """The vertices of a group that may differ, in two versions.

    Attributes:
        older, newer: their columns in each version.
        rows, places: the rows in `older` and in `newer` of those that both versions have.
        removed, added: the rows in `older` and in `newer` of the others.
    """

    older: dict[str, Column]
    newer: dict[str, Column]
    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    removed: NDArray[np.int64]
    added: NDArray[np.int64]

    def differ(
        self, name: str, compare: Callable[[Column, Column], NDArray[np.bool_]]
    ) -> NDArray[np.bool_]:
        """Those of the vertices of both versions whose values of a field differ."""
        if name not in self.older or name not in self.newer:
            return np.ones(self.rows.size, np.bool_)
        return compare(self.older[name][self.rows], self.newer[name][self.places])


def _matches(
    store: VersionReader, older: Manifest | None, newer: Manifest, options: Mapping[str, Any]
) -> Iterator[_Match]:
    versions = [version for version in (older, newer) if version is not None]
    named = any(version.ids == "str" for version in versions)
    layers = [dict(layers_by_partition(store.segments(version))) for version in versions]
    old_layers, new_layers = layers if older is not None else ({}, *layers)
    places = sorted({*old_layers, *new_layers})
    for group in sorted({group for _, group in places}):
        pairs = [(old_layers.get(p, []), new_layers.get(p, [])) for p in places if p[1] == group]
        chosen = [_chosen(store, named, old, new) for old, new in pairs if _keys(old) != _keys(new)]
        none = np.empty(0, object if named else np.int64)
        sides: list[dict[str, Column]] = []
        for version, side in ((older, 0), (newer, 1)):
            rows: dict[str, Column] = {}
            if version is not None:
                parts = [(pair[side], wanted) for *pair, wanted in chosen if pair[side]]
                rows = _rows(store, version, named, parts, options)
            sides.append({"id": none, **rows})
        a, b = sides
        _, rows_a, rows_b = np.intersect1d(
            a["id"], b["id"], assume_unique=True, return_indices=True
        )
        alone = [
            np.flatnonzero(~_marked(len(side["id"]), rows))
            for side, rows in ((a, rows_a), (b, rows_b))
        ]
        yield _Match(a, b, rows_a, rows_b, *alone)


def _marked(count: int, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    marked = np.zeros(count, np.bool_)
    marked[rows] = True
    return marked


def _keys(refs: Sequence[SegmentRef]) -> list[Any]:
    return [ref.key for ref in refs]


_Chosen: TypeAlias = tuple[list[SegmentRef], list[SegmentRef], Wanted | None]


def _chosen(
    store: VersionReader, named: bool, old: list[SegmentRef], new: list[SegmentRef]
) -> _Chosen:
    """The layers of a partition in both versions, and the vertices to read; None for all.

    Where they have the first layers in common, only the vertices in the others can differ.
    """
    pairs = zip(old, new, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0].key == pair[1].key, pairs))
    if not shared or (named and shared < len(old)):  # codes of names may differ
        return old, new, None
    written = [store.segment(ref, fields=()) for ref in (*old[shared:], *new[shared:])]
    return old, new, Wanted.of(written)


def _rows(
    store: VersionReader,
    manifest: Manifest,
    named: bool,
    partitions: list[tuple[list[SegmentRef], Wanted | None]],
    options: Mapping[str, Any],
) -> dict[str, Column]:
    """The state of some vertices, by their ids, or by their names."""
    fields = IdFields(store, manifest)
    parts = []
    for refs, wanted in partitions:
        if wanted is None:
            part = overlay([store.segment(ref, **options) for ref in refs])
        else:
            part = store.rows(refs, wanted, **options)
        if named:
            part["id"] = np.array(names_of(part), object)
        part = {name: column for name, column in part.items() if name not in NAME_COLUMNS}
        for name in fields.names & part.keys():
            part[name] = fields.decode(part[name])
        parts.append(part)
    return _stacked(parts)


def _stacked(parts: Sequence[dict[str, Column]]) -> dict[str, Column]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {n: np.concatenate([part[n] for part in parts if n in part]) for n in names}


def unequal(a: Column, b: Column) -> NDArray[np.bool_]:
    """The rows (bool[n]) in which two columns of n rows differ; NaN equals NaN."""
    if a.shape != b.shape:
        return np.ones(len(a), np.bool_)
    if object in (a.dtype, b.dtype):
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        differ = np.fromiter((_unlike(x, y) for x, y in pairs), np.bool_, a.size).reshape(a.shape)
    else:
        differ = np.asarray(a != b, np.bool_)
    return _rows_of(differ, a, b)


def unequal_bits(a: Column, b: Column) -> NDArray[np.bool_]:
    """As `unequal`, but 0.0 is not -0.0."""
    if a.shape != b.shape or a.dtype.kind != "f" or b.dtype.kind != "f":
        return unequal(a, b)
    a, b = a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
    return _rows_of(np.asarray(a.view(np.int64) != b.view(np.int64), np.bool_), a, b)


def _rows_of(differ: NDArray[np.bool_], a: Column, b: Column) -> NDArray[np.bool_]:
    """The rows with an element that differs, but for two NaN."""
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        differ &= (a == a) | (b == b)
    if differ.ndim == 1:
        return differ
    if differ.shape[1] > _NARROW:
        return np.asarray(differ.any(axis=1), np.bool_)
    rows = np.zeros(len(differ), np.bool_)
    for k in range(differ.shape[1]):
        rows |= differ[:, k]
    return rows


def _unlike(a: Any, b: Any) -> bool:
    """True if two objects differ; those that are equal, or are pickled to the same, do not."""
    with suppress(Exception):  # that of a user's class, or an array with several answers
        if type(a) is type(b) and bool(a == b):
            return False
    try:
        return pickle.dumps(a) != pickle.dumps(b)
    except Exception:
        return True


def _sorted(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
