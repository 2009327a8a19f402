"""One version's state, put together: the base of a partition, and the deltas laid over it.

A base or delta segment has a column "id" (int64[n]) and one row per vertex, in the order of their
key groups. A delta has whole rows: its vertices replace those of the same id, or are added; where
it has a column `TOMBSTONE` (bool[n]), those for which that is true are there no more. Vertices
with names (string ids) have "name.offsets" and "name.bytes".
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column, Table
from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.arrays.id_hash import KEY_GROUPS, groups_of_hashes, key_groups
from vertexsdk.arrays.packed_strings import (
    hash_strings,
    join_strings,
    pack_strings,
    take_strings,
    unpack_strings,
)
from vertexsdk.errors import StateError

NAME_COLUMNS = ("name.offsets", "name.bytes")
TOMBSTONE = "#gone"  # no field is called so
FEW = 64  # vertices whose rows are looked up one by one
_MANY = 1 << 16  # rows
_RANGE = 64  # rows that a point lookup may read, about
# By the `id` of an array of vertex ids: the array, and the order of its rows by key group.
_orders: dict[int, tuple[Any, NDArray[np.int64] | None, NDArray[np.uint32]]] = {}


def by_key_group(columns: dict[str, Column]) -> tuple[dict[str, Column], NDArray[np.uint32]]:
    """The rows in the order of their key groups, and where ranges of these begin.

    Vertices with names are in the groups of their names, others in those of their ids. Where ids
    are read-only, as those of a graph that is loaded, their order is remembered with them.

    Returns:
        The columns, and uint32[b + 1] for b ranges of as many groups each, b a power of two.
    """
    ids = columns["id"]
    remembered = _orders.get(id(ids))
    if remembered is None or remembered[0]() is not ids:
        remembered = (None, *_group_order(columns))
        if not ids.flags.writeable and len(ids) >= _MANY:
            forget = partial(_forget, id(ids))
            remembered = _orders[id(ids)] = (weakref.ref(ids, forget), *remembered[1:])
    _, order, starts = remembered
    return (columns if order is None else take_rows(columns, order)), starts


def _forget(key: int, _: object) -> None:
    _orders.pop(key, None)


def _group_order(
    columns: dict[str, Column],
) -> tuple[NDArray[np.int64] | None, NDArray[np.uint32]]:
    """The order of rows by key group, None where they have it, and where ranges begin."""
    count = len(columns["id"])
    if "name.offsets" in columns:
        groups = name_groups(columns["name.offsets"], columns["name.bytes"])
    else:
        groups = key_groups(columns["id"])
    ranges = 1
    while ranges < min(KEY_GROUPS, count // _RANGE):
        ranges *= 2
    starts = np.zeros(ranges + 1, np.uint32)
    np.cumsum(np.bincount(groups // (KEY_GROUPS // ranges), minlength=ranges), out=starts[1:])
    if (groups[1:] >= groups[:-1]).all():
        return None, starts
    if count < _MANY:
        return np.argsort(groups, kind="stable"), starts
    # where it is worth the import of Numba
    from vertexsdk.arrays.radix_sort import order_of_groups

    return order_of_groups(groups, KEY_GROUPS), starts


def check_rows(columns: Mapping[str, Column]) -> None:
    """Refuse columns that are not a base or a delta.

    Raises:
        StateError: no "id" of int64, or an id twice; or a column of another length.
    """
    if "id" not in columns or columns["id"].dtype.str != "<i8" or columns["id"].ndim != 1:
        raise StateError('a base or delta segment needs a column "id" of int64')
    ids = columns["id"]
    if not (ids[1:] > ids[:-1]).all() and np.unique(ids).size < ids.size:
        raise StateError('the column "id" of a segment has an id twice')
    for name, array in columns.items():
        if not name.startswith("name.") and len(array) != len(ids):
            raise StateError(f"column {name!r} has {len(array)} rows for {len(ids)} ids")


def take_rows(columns: dict[str, Column], rows: NDArray[np.int64]) -> dict[str, Column]:
    """Some rows of columns, in that order; names too."""
    taken = {k: v if k in NAME_COLUMNS else v.take(rows, 0) for k, v in columns.items()}
    if "name.offsets" in columns:
        names = take_strings(columns["name.offsets"], columns["name.bytes"], rows)
        taken["name.offsets"], taken["name.bytes"] = names
    return taken


def name_groups(offsets: Column, utf8: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """The key group (uint16[n]) of each packed name."""
    return groups_of_hashes(hash_strings(offsets, utf8))


def overlay(layers: Sequence[dict[str, Column]]) -> dict[str, Column]:
    """The rows of all layers, in any order; of equal ids the row of the last layer.

    One layer comes back as it is, at no copy, but for rows that are gone. Names are kept if every
    layer has them.

    Raises:
        StateError: the layers have different columns.
    """
    if any(TOMBSTONE in layer for layer in layers):
        filled = [{TOMBSTONE: np.zeros(len(layer["id"]), np.bool_), **layer} for layer in layers]
        merged = _overlay(filled)
        return take_rows(merged, np.flatnonzero(~merged.pop(TOMBSTONE)))
    return _overlay(layers)


def _overlay(layers: Sequence[dict[str, Column]]) -> dict[str, Column]:
    fields = [name for name in layers[0] if name not in NAME_COLUMNS]
    named = all("name.offsets" in layer for layer in layers)
    if len(layers) == 1:
        return dict(layers[0])
    for layer in layers[1:]:
        if {name for name in layer if name not in NAME_COLUMNS} != set(fields):
            raise StateError(
                f"a delta has the columns {sorted(layer)} where the base has {sorted(fields)}: "
                "it must have the same"
            )
    if not named:
        layers = [{name: layer[name] for name in fields} for layer in layers]
    base, delta = layers[0], stack(layers[1:], named=named)
    rows = locate(base["id"], delta["id"])
    if (rows >= 0).all():  # nothing is added: no sorting
        merged = {"id": base["id"]}
        for name in fields:
            if name != "id":
                merged[name] = base[name].copy()
                merged[name][rows] = delta[name]
        return {**merged, **{k: base[k] for k in NAME_COLUMNS if named}}
    return stack([base, delta], named=named)


def stack(layers: Sequence[dict[str, Column]], *, named: bool | None = None) -> dict[str, Column]:
    """The rows of all layers, ascending by id; of equal ids the row of the last layer.

    Args:
        named: the layers have names; None if all that have names are to keep them.
    """
    if named is None:
        named = all("name.offsets" in layer for layer in layers)
    ids = np.concatenate([layer["id"] for layer in layers])
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    last = np.ones(order.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
    rows = order[last]
    merged = {
        name: np.concatenate([layer[name] for layer in layers])[rows]
        for name in layers[0]
        if name not in NAME_COLUMNS
    }
    if named:
        offsets, data = join_strings([(x["name.offsets"], x["name.bytes"]) for x in layers])
        merged["name.offsets"], merged["name.bytes"] = take_strings(offsets, data, rows)
    return merged


def chosen_columns(
    table: Table, fields: Collection[str] | None, objects: Collection[str] | None
) -> list[str]:
    """The columns to read of a segment: its ids and names, and these fields.

    Args:
        fields: None for all.
        objects: the only columns that may be pickled; None for any.

    Raises:
        CorruptError: another column is pickled; names it.
    """
    kept = ("id", TOMBSTONE, *NAME_COLUMNS)
    names = [n for n in table.names if fields is None or n in fields or n in kept]
    for name in names:
        if objects is not None and name not in objects and table.is_pickled(name):
            raise CorruptError(
                f"column {name!r} holds pickled Python objects, and the program's schema has none "
                "there"
            )
    return names


def ascending(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows (int64[n]) in which n different ids ascend."""
    if ids.size and (low := int(ids.min())) + 8 * ids.size > int(ids.max()):  # dense: no sorting
        places = _places(ids, low, int(ids.max()))
        return places[places >= 0].astype(np.int64)
    return np.argsort(ids)


def locate(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of each wanted id among n different ids in any order, -1 where it is not there."""
    if not ids.size:
        return np.full(wanted.size, -1, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if low + 8 * ids.size > high:
        inside = (wanted >= low) & (wanted <= high)
        places = _places(ids, low, high)
        return np.where(inside, places[np.where(inside, wanted, low) - low], np.int64(-1))
    order = np.argsort(ids)
    rows = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), ids.size - 1)]
    return np.where(ids[rows] == wanted, rows, -1)


def _places(ids: NDArray[np.int64], low: int, high: int) -> NDArray[np.int32]:
    """The row of each id from `low` to `high`, or -1."""
    places = np.full(high - low + 1, -1, np.int32)
    places[ids - low] = np.arange(ids.size, dtype=np.int32)
    return places


@dataclass(frozen=True, slots=True)
class Wanted:
    """Vertices to be read.

    Attributes:
        ids: int64[n], different.
        groups: their key groups, uint16[n].
    """

    ids: NDArray[np.int64]
    groups: NDArray[np.uint16]

    @classmethod
    def of(cls, layers: Sequence[dict[str, Column]]) -> Wanted:
        """The vertices of these layers."""
        ids, rows = np.unique(np.concatenate([x["id"] for x in layers]), return_index=True)
        if "name.offsets" not in layers[0]:
            return cls(ids, key_groups(ids))
        groups = [name_groups(x["name.offsets"], x["name.bytes"]) for x in layers]
        return cls(ids, np.concatenate(groups)[rows])

    def find(self, table: Table) -> NDArray[np.int64]:
        """The row of each in a segment, -1 where it is not there; int64[n]."""
        assert table.groups is not None
        starts = table.groups.astype(np.int64)
        ranges = self.groups.astype(np.int64) * (starts.size - 1) // KEY_GROUPS
        low, counts = starts[ranges], np.diff(starts)[ranges]
        if self.ids.size > FEW:
            table.check("id")
            ids = table.column("id")
            if counts.sum() > 2 * len(ids):
                return locate(ids, self.ids)
        ends = np.cumsum(counts)
        rows = np.arange(ends[-1] if ends.size else 0) + np.repeat(low - ends + counts, counts)
        owners = np.repeat(np.arange(self.ids.size), counts)
        if self.ids.size > FEW:
            near = ids[rows]
        else:
            parts = [table.rows("id", 0, 0)]
            for start, count in zip(low.tolist(), counts.tolist(), strict=True):
                table.check("id", start, start + count)
                parts.append(table.rows("id", start, start + count))
            near = np.concatenate(parts)
        equal = np.flatnonzero(near == self.ids[owners])
        result = np.full(self.ids.size, -1, np.int64)
        result[owners[equal]] = rows[equal]
        return result

    def without(self, rows: NDArray[np.int64]) -> Wanted:
        """Those of which the row is -1."""
        missing = rows < 0
        return Wanted(self.ids[missing], self.groups[missing])


def find_ids(table: Table, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of each wanted id in a segment, -1 where it is not there; int64[m].

    Of few ids only the rows of their key groups are read; of a segment with names, whose rows are
    grouped by these, all.
    """
    if "name.offsets" in table:
        table.check("id")
        return locate(table.column("id"), wanted)
    return Wanted(wanted, key_groups(wanted)).find(table)


def find_names(table: Table, names: Iterable[str]) -> list[int]:
    """The row of each name in a segment, -1 where it is not there; reads their key groups only."""
    wanted = list(names)
    if "name.offsets" not in table:
        return [-1] * len(wanted)
    packed = pack_strings(wanted)
    return [
        _row_of(table, name.encode("utf-8", "surrogatepass"), *_range_of(table, group))
        for name, group in zip(wanted, name_groups(*packed).tolist(), strict=True)
    ]


def _range_of(table: Table, group: int) -> tuple[int, int]:
    """Rows low..high of a segment have the vertices of a key group, and of its neighbours."""
    starts = table.groups
    assert starts is not None
    at = group * (starts.size - 1) // KEY_GROUPS
    return int(starts[at]), int(starts[at + 1])


def _row_of(table: Table, name: bytes, low: int, high: int) -> int:
    offsets, data = table.texts("name", low, high)
    for row in np.flatnonzero(np.diff(offsets) == len(name)).tolist():
        if data[offsets[row] : offsets[row + 1]].tobytes() == name:
            return low + int(row)
    return -1


def name_of(table: Table, row: int) -> str:
    """The name of the vertex in a row."""
    return unpack_strings(*table.texts("name", row, row + 1))[0]
