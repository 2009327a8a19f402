"""Edges and vertices from tables in memory: pandas, Polars, PyArrow.

Every table becomes an Arrow table first. The libraries are not imported: who passes a DataFrame has
imported its library already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from vertexsdk.errors import InputError, first_line
from vertexsdk.graph.changes.table import is_text
from vertexsdk.graph.load._sources import ArrayEdges
from vertexsdk.graph.load.arrow import edge_columns, text_column

EDGES, VERTICES = "the edges", "the vertices"
_ENDS = ("source", "target")


def table_edges(frame: Any, columns: Mapping[str, str | None]) -> ArrayEdges:
    """Return the rows of a table as edges.

    Args:
        frame: a DataFrame of pandas or Polars, or anything that Arrow takes as a table.
        columns: the names of the columns "source", "target" and "value" where they have other
            names; the defaults are those of `edge_columns`.

    Raises:
        InputError: a column is missing, has another type, or lacks a value.
    """
    table = arrow_table(frame, EDGES)
    names = _chosen(table.column_names, columns)
    for name in names[:2]:
        kind = table.schema.field(name).type
        if not (pa.types.is_integer(kind) or is_text(kind)) and len(table):
            raise InputError(
                f"{EDGES}, column {name}: {kind}; ids are integers or strings, cast the column"
            )
        if table[name].null_count:
            raise InputError(f"{EDGES}, column {name}: an id is null; drop these rows")
    if names[2] is not None and table[names[2]].null_count:
        raise InputError(
            f"{EDGES}, column {names[2]}: a value is missing; drop these rows or fill in numbers"
        )
    named = {"source": names[0], "target": names[1], "value": names[2]}
    others = [n for n in table.column_names if n not in names and n not in named]
    chosen = {new: table[old] for new, old in named.items() if old is not None}
    return ArrayEdges(pa.table(chosen | {n: table[n] for n in others}).combine_chunks())


def _chosen(present: list[str], columns: Mapping[str, str | None]) -> tuple[str, str, str | None]:
    given = {role: name for role, name in columns.items() if name is not None}
    for role, name in given.items():
        if name not in present:
            raise InputError(
                f"{EDGES}: no column {name!r} for {role}=; columns are {', '.join(present)}"
            )
    if {*_ENDS} <= given.keys():
        return given["source"], given["target"], given.get("value")
    if given.keys() & {*_ENDS}:
        raise InputError(f"{EDGES}: give both source= and target=, or neither")
    source, target, value, _ = edge_columns(present, EDGES)
    return source, target, given.get("value", value)


def arrow_table(frame: Any, place: str) -> pa.Table:
    """Return a table with columns that loading can read: no dictionaries, no views of strings.

    Raises:
        InputError: it is no table, or two columns have the same name.
    """
    if isinstance(frame, pa.Table):
        table = frame
    elif _is_pandas(frame):
        table = _of_pandas(frame, place)
    else:
        if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):
            frame = frame.collect()  # a LazyFrame of Polars
        try:
            table = pa.table(frame.to_arrow() if hasattr(frame, "to_arrow") else frame)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                f"{place}: {type(frame).__name__} is no table that Arrow can read "
                f"({first_line(error)})"
            ) from None
    if len({*table.column_names}) < table.num_columns:
        raise InputError(f"{place}: two columns have the same name: {table.column_names}")
    fields = [(f.name, _readable(f.type)) for f in table.schema]
    return table.cast(pa.schema(fields))


def _readable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _readable(kind.value_type)
    return pa.large_string() if kind == pa.string_view() else kind


def _is_pandas(frame: Any) -> bool:
    return type(frame).__module__.split(".")[0] == "pandas" and hasattr(frame, "columns")


def _of_pandas(frame: Any, place: str) -> pa.Table:
    """Convert column by column, so that one of mixed objects does not refuse the others.

    Mixed ids, such as 7 and "a", become strings. Another column of mixed objects is left out, and
    so is missing for a program that reads it.
    """
    columns: dict[str, pa.Array] = {}
    for position, name in enumerate(map(str, frame.columns)):
        if name in columns:
            raise InputError(f"{place}: two columns are called {name!r}; rename one")
        column = frame.iloc[:, position]
        try:
            columns[name] = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            if column.isna().any():
                continue
            columns[name] = text_column(column)
    return pa.table(columns)
