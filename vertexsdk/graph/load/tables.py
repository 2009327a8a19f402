"""Tables of users, with edges, vertices or changes: of pandas, Polars, PyArrow, Spark.

Every table becomes an Arrow table first. The libraries are not imported: who passes a DataFrame has
imported its library already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from vertexsdk.errors import InputError, first_line
from vertexsdk.graph.load.arrow import edge_columns, text_column
from vertexsdk.transport.transport import is_dataframe

EDGES = "the edges"
_ENDS = ("source", "target")


def chosen_columns(
    present: Sequence[str], columns: Mapping[str, str | None]
) -> tuple[str, str, str | None]:
    """Return the names of the source, target and value columns.

    Args:
        present: the names of all columns.
        columns: the names of the columns "source", "target" and "value" where they have other
            names; the defaults are those of `edge_columns`.

    Raises:
        InputError: one is not there.
    """
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
    source, target, value = edge_columns(present, EDGES)[:3]
    return source, target, given.get("value", value)


def is_table(value: object) -> bool:
    """Return whether a value is a DataFrame, or a table that Arrow can read."""
    if is_dataframe(value) or hasattr(value, "__arrow_c_stream__") or _is_pandas(value):
        return True
    return type(value).__module__.split(".")[0] == "polars" and hasattr(value, "collect")


def arrow_table(frame: Any, place: str) -> pa.Table:
    """Return a table with columns that loading can read: no dictionaries, no views of strings.

    An empty column without a type, as pandas makes of [], is one of integers: it fits ids of both
    kinds, and values.

    Raises:
        InputError: it is not a table, or two columns have the same name.
    """
    if isinstance(frame, pa.Table):
        table = frame
    elif is_dataframe(frame):
        from vertexsdk.transport.spark_failures import spark_failure  # which imports PySpark

        with spark_failure():
            table = frame.toArrow()
    elif _is_pandas(frame):
        table = _of_pandas(frame, place)
    else:
        if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):
            frame = frame.collect()  # a LazyFrame of Polars
        try:
            table = pa.table(frame.to_arrow() if hasattr(frame, "to_arrow") else frame)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                f"{place}: {type(frame).__name__} is not a table that Arrow can read "
                f"({first_line(error)})"
            ) from None
    if len({*table.column_names}) < table.num_columns:
        raise InputError(f"{place}: two columns have the same name: {table.column_names}")
    fields = [(f.name, _readable(f.type, len(table))) for f in table.schema]
    return table.cast(pa.schema(fields))


def _readable(kind: pa.DataType, rows: int) -> pa.DataType:
    if not rows and (pa.types.is_null(kind) or pa.types.is_floating(kind)):
        return pa.int64()
    if pa.types.is_dictionary(kind):
        return _readable(kind.value_type, rows)
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
