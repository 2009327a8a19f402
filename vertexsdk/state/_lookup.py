"""Point reads of single vertices: newest layer first, the rows of a key group in each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Table
from vertexsdk.arrays.id_hash import hash_partition
from vertexsdk.errors import excerpt
from vertexsdk.state.errors import StateInputError
from vertexsdk.state.manifests import Manifest
from vertexsdk.state.reading import (
    FEW,
    NAME_COLUMNS,
    TOMBSTONE,
    find_ids,
    find_names,
    refuse_pickled,
)

if TYPE_CHECKING:
    from vertexsdk.state._version_reader import VersionReader

__all__ = ["find_vertices"]


def find_vertices(
    store: VersionReader,
    manifest: Manifest,
    ids: Sequence[int] | Sequence[str] | NDArray[np.int64],
    *,
    fields: Sequence[str] | None,
    trusted: bool,
    objects: Collection[str] | None,
) -> dict[Any, dict[str, Any]]:
    """id → field → value for the ids that exist in the version; see `Store.lookup`."""
    wanted: list[Any] = [i.item() if isinstance(i, np.generic) else i for i in ids]
    kind: type = str if manifest.ids == "str" else int
    for i in wanted:
        if type(i) is not kind or (type(i) is int and not -(1 << 63) <= i < 1 << 63):
            raise StateInputError(
                f"vertex {excerpt(i)}: the vertices of loop {manifest.loop!r} have "
                f"{'names' if kind is str else 'integer ids of 64 bits'}"
            )
    remaining = dict.fromkeys(wanted)
    values: dict[Any, dict[str, Any]] = {}
    owners = _owners(list(remaining), manifest) if kind is int else {}
    layers = [r for r in reversed(store.segments(manifest)) if r.kind in ("base", "delta")]
    # First in the partition of their hash; a partitioner may have placed them elsewhere.
    attempts = [(ref, True) for ref in layers] + [(ref, False) for ref in layers if owners]
    for ref, by_hash in attempts:
        if not remaining:
            break
        p = ref.key.partition
        mine = [i for i in remaining if (owners.get(i, p) == p) == by_hash]
        if not mine:
            continue
        table = store.point_table(ref) if len(mine) <= FEW else store.table(ref)
        with store.naming_segment(ref):
            rows = find_names(table, mine) if kind is str else _rows(table, mine)
            names = [
                n
                for n in table.names
                if (fields is None or n in fields) and n not in ("id", TOMBSTONE, *NAME_COLUMNS)
            ]
            refuse_pickled(table, names, objects)
            removable = TOMBSTONE in table
            for i, row in zip(mine, rows, strict=True):
                if row >= 0 and removable and table.row(TOMBSTONE, row):
                    del remaining[i]
                elif row >= 0:
                    values[i] = {name: table.row(name, row, trusted=trusted) for name in names}
                    del remaining[i]
    return {i: values[i] for i in dict.fromkeys(wanted) if i in values}


def _owners(ids: list[int], manifest: Manifest) -> dict[int, int]:
    owners = hash_partition(np.array(ids, np.int64), manifest.partitions)
    return dict(zip(ids, owners.tolist(), strict=True))


def _rows(table: Table, ids: list[int]) -> list[int]:
    rows: list[int] = find_ids(table, np.array(ids, np.int64)).tolist()
    return rows
