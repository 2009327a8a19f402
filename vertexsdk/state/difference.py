"""The difference between two versions; segments that they share are not read.

A vertex is the same in both if its id is, wherever it is held: versions may have other partitions,
and where vertices have names, other codes for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.state.id_fields import IdFields, names_of
from vertexsdk.state.manifests import Manifest, SegmentRef, layers_by_partition
from vertexsdk.state.reading import NAME_COLUMNS, overlay
from vertexsdk.state.version_reader import VersionReader


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
    """The difference; partitions that share all their segments are not read."""
    old_layers = dict(layers_by_partition(store.segments(older)))
    new_layers = dict(layers_by_partition(store.segments(newer)))
    shared = [p for p in old_layers if _keys(old_layers[p]) == _keys(new_layers.get(p, ()))]
    named = "str" in (older.ids, newer.ids)
    added, removed, changed = [], [], []
    fields: dict[str, int] = {}
    for group in sorted({group for _, group in {*old_layers, *new_layers}}):
        a, b = (
            _rows(
                store, manifest, named,
                [refs for p, refs in layers.items() if p[1] == group and p not in shared],
            )
            for manifest, layers in ((older, old_layers), (newer, new_layers))
        )  # fmt: skip
        none = np.empty(0, object if named else np.int64)
        ids, others = a.pop("id", none), b.pop("id", none)
        common, rows, places = np.intersect1d(ids, others, assume_unique=True, return_indices=True)
        removed.append(np.setdiff1d(ids, common, assume_unique=True))
        added.append(np.setdiff1d(others, common, assume_unique=True))
        differ = np.zeros(common.size, np.bool_)
        for name in sorted({*a, *b}) if common.size else ():
            if name in a and name in b:
                here = unequal(a[name][rows], b[name][places])
            else:
                here = np.ones(common.size, np.bool_)
            fields[name] = fields.get(name, 0) + int(here.sum())
            differ |= here
        changed.append(common[differ])
    return Difference(_sorted(added), _sorted(removed), _sorted(changed), fields)


def _keys(refs: Sequence[SegmentRef]) -> list[Any]:
    return [ref.key for ref in refs]


def _rows(
    store: VersionReader, manifest: Manifest, named: bool, partitions: list[list[SegmentRef]]
) -> dict[str, Column]:
    """The state of some partitions, by the vertices' ids, or by their names."""
    fields = IdFields(store, manifest)
    parts = []
    for refs in partitions:
        part = overlay([store.segment(ref) for ref in refs])
        if named:
            part["id"] = np.array(names_of(part), object)
        part = {name: column for name, column in part.items() if name not in NAME_COLUMNS}
        for name in fields.names & part.keys():
            part[name] = fields.decode(part[name])
        parts.append(part)
    names = set[str]().union(*parts)
    return {n: np.concatenate([part[n] for part in parts if n in part]) for n in names}


def unequal(a: Column, b: Column) -> NDArray[np.bool_]:
    """The rows (bool[n]) in which two columns of n rows differ; NaN equals NaN."""
    if a.shape != b.shape:
        return np.ones(len(a), np.bool_)
    differ: NDArray[np.bool_] = np.asarray(a != b, np.bool_)
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        differ &= ~(np.isnan(a) & np.isnan(b))
    return np.asarray(differ.any(axis=1), np.bool_) if differ.ndim == 2 else differ


def _sorted(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
