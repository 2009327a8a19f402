"""One version's state, put together: the base of a partition, and the deltas laid over it.

A base or delta segment has a column "id" (int64[n], ascending) and one row per vertex. A delta
has whole rows: its vertices replace those of the same id, or are added; where it has a column
`TOMBSTONE` (bool[n]), those for which that is true are there no more. Vertices with names
(string ids) have "name.offsets" and "name.bytes", and an index "name.hash", "name.order".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.column_table import Column, CorruptError, Table
from vertexsdk.arrays.packed_strings import hash_strings, index_strings, pack_strings, take_strings
from vertexsdk.errors import StateError

__all__ = ["FEW", "NAME_COLUMNS", "TOMBSTONE", "find_ids", "find_names", "name_of", "overlay"]
__all__ += ["refuse_pickled", "with_name_index"]

NAME_COLUMNS = ("name.offsets", "name.bytes", "name.hash", "name.order")
TOMBSTONE = "#gone"  # no field is called so
FEW = 64  # vertices whose rows are looked up one by one


def with_name_index(columns: dict[str, Column]) -> dict[str, Column]:
    """The columns with the index over "name.*", if they have names and no index yet."""
    if "name.offsets" not in columns or "name.hash" in columns:
        return columns
    hashes, order = index_strings(columns["name.offsets"], columns["name.bytes"])
    return {**columns, "name.hash": hashes, "name.order": order}


def overlay(layers: Sequence[dict[str, Column]]) -> dict[str, Column]:
    """The rows of all layers, ascending by id; of equal ids the row of the last layer.

    One layer comes back as it is, at no copy, but for rows that are gone. Names are kept if every
    layer has them; their index is left out.

    Raises:
        StateError: the layers have different columns.
    """
    if any(TOMBSTONE in layer for layer in layers):
        filled = [{TOMBSTONE: np.zeros(len(layer["id"]), np.bool_), **layer} for layer in layers]
        return _without_gone(_overlay(filled))
    return _overlay(layers)


def _without_gone(merged: dict[str, Column]) -> dict[str, Column]:
    """The rows which are there, without the column that says so."""
    rows = np.flatnonzero(~merged.pop(TOMBSTONE))
    kept = {k: v[rows] for k, v in merged.items() if k not in NAME_COLUMNS}
    if "name.offsets" in merged:
        names = take_strings(merged["name.offsets"], merged["name.bytes"], rows)
        kept["name.offsets"], kept["name.bytes"] = names
    return kept


def _overlay(layers: Sequence[dict[str, Column]]) -> dict[str, Column]:
    fields = [name for name in layers[0] if name not in NAME_COLUMNS]
    named = all("name.offsets" in layer for layer in layers)
    if len(layers) == 1:
        return {k: v for k, v in layers[0].items() if k not in NAME_COLUMNS[2:]}
    for layer in layers[1:]:
        if {name for name in layer if name not in NAME_COLUMNS} != set(fields):
            raise StateError(
                f"a delta has the columns {sorted(layer)} where the base has {sorted(fields)}: "
                "it must have the same"
            )
    if not named:
        layers = [{name: layer[name] for name in fields} for layer in layers]
    base, delta = layers[0], _stack(layers[1:], named=named)
    if base["id"].size:
        rows = np.minimum(np.searchsorted(base["id"], delta["id"]), base["id"].size - 1)
        if np.array_equal(base["id"][rows], delta["id"]):  # nothing is added: no sorting
            merged = {"id": base["id"]}
            for name in fields:
                if name != "id":
                    merged[name] = base[name].copy()
                    merged[name][rows] = delta[name]
            return {**merged, **{k: base[k] for k in NAME_COLUMNS[:2] if named}}
    return _stack([base, delta], named=named)


def _stack(layers: Sequence[dict[str, Column]], *, named: bool) -> dict[str, Column]:
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
        starts = np.cumsum([0, *(layer["name.offsets"][-1] for layer in layers)])
        offsets = np.concatenate(
            [np.zeros(1, np.int64)]
            + [layer["name.offsets"][1:] + s for layer, s in zip(layers, starts, strict=False)]
        )
        data = np.concatenate([layer["name.bytes"] for layer in layers])
        merged["name.offsets"], merged["name.bytes"] = take_strings(offsets, data, rows)
    return merged


def refuse_pickled(table: Table, names: Iterable[str], objects: Collection[str] | None) -> None:
    """Refuse columns that are pickled and not among the `objects`, which may be.

    Raises:
        CorruptError: names a column.
    """
    if objects is None:
        return
    for name in names:
        if name not in objects and table.is_pickled(name):
            raise CorruptError(
                f"column {name!r} holds pickled Python objects, and the program's schema has none "
                "there"
            )


def find_ids(table: Table, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of each wanted id in a segment, -1 where it is not there; int64[m]."""
    count = table.length("id")
    if count == 0:
        return np.full(wanted.size, -1, np.int64)
    rows = table.search("id", wanted)
    inside = np.minimum(rows, count - 1)
    found = np.empty(wanted.size, np.int64)
    if wanted.size > FEW:
        table.check("id")
        found[:] = table.column("id")[inside]
    else:
        for index, row in enumerate(inside.tolist()):
            found[index] = table.row("id", row)
    return np.where((rows < count) & (found == wanted), rows, -1)


def find_names(table: Table, names: Iterable[str]) -> list[int]:
    """The row of each name in a segment, -1 where it is not there; through its index."""
    wanted = list(names)
    if "name.hash" not in table:
        return [-1] * len(wanted)
    hashes = hash_strings(*pack_strings(wanted))
    starts = table.search("name.hash", hashes)
    return [
        _row_of(table, name, hash_, int(start))
        for name, hash_, start in zip(wanted, hashes, starts, strict=True)
    ]


def _row_of(table: Table, name: str, hash_: Any, position: int) -> int:
    count = table.length("name.hash")
    while position < count and table.row("name.hash", position) == int(hash_):
        row = int(table.row("name.order", position))
        if name_of(table, row) == name:
            return row
        position += 1
    return -1


def name_of(table: Table, row: int) -> str:
    """The name of the vertex in a row."""
    low, high = table.row("name.offsets", row), table.row("name.offsets", row + 1)
    table.check("name.bytes", low, high)
    return table.rows("name.bytes", low, high).tobytes().decode("utf-8", "surrogatepass")
