"""The difference between two versions; segments that they share are not read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.state._version_reader import VersionReader
from vertexsdk.state.manifests import Manifest, layers_by_partition
from vertexsdk.state.reading import NAME_COLUMNS, overlay


@dataclass(frozen=True, slots=True)
class Difference:
    """The vertices that differ between two versions, as int64[n] ids, ascending.

    Attributes:
        added, removed: those that only the newer or only the older version has.
        changed: those whose state differs in a field; NaN equals NaN.
        fields: for each field, how many of `changed` differ in it.
    """

    added: NDArray[np.int64]
    removed: NDArray[np.int64]
    changed: NDArray[np.int64]
    fields: dict[str, int]


def compare(store: VersionReader, older: Manifest, newer: Manifest) -> Difference:
    """The difference; partitions that share all their segments are not read."""
    before = dict(layers_by_partition(store.segments(older)))
    after = dict(layers_by_partition(store.segments(newer)))
    added, removed, changed = [], [], []
    fields: dict[str, int] = {}
    for place in sorted({*before, *after}):
        old, new = before.get(place, []), after.get(place, [])
        if [ref.key for ref in old] == [ref.key for ref in new]:
            continue
        a, b = (
            overlay([store.segment(ref) for ref in refs]) if refs else {} for refs in (old, new)
        )
        none = np.empty(0, np.int64)
        ids, others = a.get("id", none), b.get("id", none)
        common, rows, places = np.intersect1d(ids, others, assume_unique=True, return_indices=True)
        removed.append(np.setdiff1d(ids, common, assume_unique=True))
        added.append(np.setdiff1d(others, common, assume_unique=True))
        differ = np.zeros(common.size, np.bool_)
        for name in sorted({*a, *b} - {"id", *NAME_COLUMNS}) if common.size else ():
            if name in a and name in b:
                here = unequal(a[name][rows], b[name][places])
            else:
                here = np.ones(common.size, np.bool_)
            fields[name] = fields.get(name, 0) + int(here.sum())
            differ |= here
        changed.append(common[differ])
    return Difference(_sorted(added), _sorted(removed), _sorted(changed), fields)


def unequal(a: Column, b: Column) -> NDArray[np.bool_]:
    """The rows (bool[n]) in which two columns of n rows differ; NaN equals NaN."""
    if a.shape != b.shape:
        return np.ones(len(a), np.bool_)
    differ: NDArray[np.bool_] = np.asarray(a != b, np.bool_)
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        differ &= ~(np.isnan(a) & np.isnan(b))
    return np.asarray(differ.any(axis=1), np.bool_) if differ.ndim == 2 else differ


def _sorted(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
