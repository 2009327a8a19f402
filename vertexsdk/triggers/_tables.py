"""The rows of tables as Arrow tables, and the columns that streams of rows have."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from vertexsdk.loops.streams.file_stream import paths_of
from vertexsdk.program.table_columns import Column, FamilyColumn, ListColumn, VectorColumn
from vertexsdk.program.trigger_program import TableElement

_TYPES = {
    "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "str": pa.large_string(),
    "bytes": pa.large_binary(),
}  # fmt: skip


def arrow_table(key: str, element: TableElement, rows: Mapping[Any, tuple[Any, ...]]) -> pa.Table:
    """Return rows in the order of their keys.

    Args:
        key: the name of the key.
        element: has the columns.
        rows: by key, as `TableRows` has them.
    """
    keys = sorted(rows)
    arrays = {key: pa.array(keys, _TYPES[element.key])}
    for place, column in enumerate(element.columns):
        arrays[column.name] = _array(column, [rows[k][place] for k in keys])
    return pa.table(arrays)


def _array(column: Column, values: list[Any]) -> pa.Array:
    of = _TYPES[column.kind]
    if isinstance(column, VectorColumn):
        numbers = [column.show(value) for value in values]
        return pa.array([x.tolist() for x in numbers], pa.list_(of, column.size))
    if isinstance(column, FamilyColumn):
        cells = [sorted(value.items()) for value in values]
        return pa.array(cells, pa.map_(_TYPES[column.names], of))
    return pa.array(values, pa.list_(of) if isinstance(column, ListColumn) else of)


def columns_of(stream: Any, table: Collection[str]) -> Sequence[str]:
    """Return the columns of a table that a stream has; all of them where there is no file yet.

    Args:
        stream: files, or a streaming DataFrame.
        table: the names of its columns.
    """
    if not isinstance(stream, str | os.PathLike | Sequence):
        names = getattr(stream, "columns", table)
        return [name for name in table if name in names]
    files = [file for path in paths_of(stream) for file in _files(path)]
    if not files:
        return list(table)
    if files[0].endswith(".parquet"):
        import pyarrow.parquet as pq

        names = pq.read_schema(files[0]).names
    else:
        with open(files[0], newline="", encoding="utf-8-sig", errors="replace") as file:
            separator = "\t" if files[0].endswith((".tsv", ".tab")) else ","
            names = next(csv.reader(file, delimiter=separator), [])
    return [name for name in table if name in names] or list(table)


def _files(path: str) -> list[str]:
    """Return the files that a path or a glob names, those of a directory included."""
    names = [path] if os.path.exists(path) else sorted(glob.glob(path))
    inside = [os.path.join(n, f) for n in names if os.path.isdir(n) for f in sorted(os.listdir(n))]
    return [name for name in [*names, *inside] if os.path.isfile(name)]
