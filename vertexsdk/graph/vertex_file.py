"""Vertices named apart from the edges: their ids, classes and attributes.

A vertex file has an id per line, and perhaps the name of the vertex's class; or it is a table with
columns `id`, perhaps `kind`, and attributes.
"""

from __future__ import annotations

import codecs
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from vertexsdk.errors import InputError, excerpt, first_line
from vertexsdk.graph.load import files, text
from vertexsdk.graph.load.arrow import as_strings, id_array, id_column, text_ids
from vertexsdk.graph.load.build_topology import NO_KIND, VertexTable
from vertexsdk.graph.load.csv import (
    HEAD,
    PACKED,
    CsvOptions,
    check_encoding,
    filled,
    is_csv,
    is_foreign_header,
    layout_of,
    read_cells,
)
from vertexsdk.graph.load.lines import LineError, check_lengths, tokens
from vertexsdk.graph.load.tables import arrow_table, is_table
from vertexsdk.graph.topology.string_ids import StringIds, merged
from vertexsdk.transport.transport import is_dataframe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNUSABLE = b"unusable"  # metadata of a column whose values cannot be read: why


@dataclass(frozen=True)
class VertexInput:
    """Vertices named apart from the edges.

    Attributes:
        column: ids, integers or strings; the last row of an id counts.
        kinds: the class name of each, or null; None where no class is named.
        place: where they were read, for messages.
        attributes: a table with a row per id; a null leaves a field at its default.
    """

    column: pa.Array
    kinds: pa.Array | None
    place: str
    attributes: pa.Table | None = None

    @classmethod
    def of(cls, vertices: ArrayLike | Mapping[str, Any]) -> VertexInput:
        """Take ids; or columns by name, or a table, of which one is `id`.

        Raises:
            InputError: the column `id` is missing, or lengths differ.
        """
        if is_table(vertices):
            return vertices_of(vertices)
        if not isinstance(vertices, Mapping):
            return cls(id_column(vertices), None, "the vertices")
        if "id" not in vertices:
            raise InputError(f"the vertices: columns are {', '.join(vertices)}; name one `id`")
        columns = {n: _arrow_column(n, x) for n, x in vertices.items() if n != "id"}
        columns = {"id": (pa.field("id", pa.null()), id_column(vertices["id"])), **columns}
        lengths = {n: len(x) for n, (_, x) in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the vertices: lengths differ: {lengths}")
        fields = [field.with_type(x.type) for field, x in columns.values()]
        table = pa.table([x for _, x in columns.values()], schema=pa.schema(fields))
        return _of_table(table, "the vertices")

    def strings(self) -> pa.Array:
        """The ids as strings."""
        return as_strings(self.column, self.place)


def with_ids(vertices: VertexInput | None, ids: Sequence[object]) -> VertexInput | None:
    """Return the vertices and some more; of one that is there already its own row counts."""
    if not ids:
        return vertices
    more = id_column(np.array(ids, object))
    if vertices is None:
        return VertexInput(more, None, "the vertices")
    kinds, attributes = vertices.kinds, vertices.attributes
    if kinds is not None:
        kinds = pa.concat_arrays([pa.nulls(len(more), kinds.type), kinds])
    if attributes is not None:
        empty = pa.table([pa.nulls(len(more), f.type) for f in attributes.schema],
                         schema=attributes.schema)  # fmt: skip
        attributes = pa.concat_tables([empty, attributes])
    both = [c for c in (more, vertices.column) if len(c)]  # an empty column has no kind of ids
    if {*map(pa.types.is_integer, (c.type for c in both))} != {True}:
        both = [as_strings(c, vertices.place) for c in both]
    column = pa.concat_arrays([c.cast(both[0].type) for c in both])
    return VertexInput(column, kinds, vertices.place, attributes)


def integer_id(vertex: Any) -> int:
    """Return a vertex id of a graph with integer ids; a string must be as the id is printed.

    Raises:
        InputError: not an integer, or beyond int64.

    >>> integer_id("7")
    7
    """
    try:
        number = int(vertex) if isinstance(vertex, str) else operator.index(vertex)
        if isinstance(vertex, str) and str(number) != vertex:
            raise ValueError
        return int(np.int64(number))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{excerpt(vertex)} is not a vertex: the graph's ids are integers"
        ) from None


def vertices_of(frame: Any, place: str = "the vertices") -> VertexInput:
    """Take a DataFrame or an Arrow table with columns `id`, perhaps `kind`, attributes.

    Raises:
        InputError: the column `id` is missing.
    """
    if not is_dataframe(frame):
        return _of_table(arrow_table(frame, place), place)
    from vertexsdk.graph.load.dataframes import collected

    table, unusable = collected(frame)
    for name, why in unusable.items():
        table = table.append_column(*_unusable(name, len(table), why))
    return _of_table(table, place)


def _of_table(table: pa.Table, place: str) -> VertexInput:
    by_name = {n.lower(): n for n in table.column_names}
    if "id" not in by_name:
        raise InputError(f"{place}: columns are {', '.join(table.column_names)}; name one `id`")
    ids = table[by_name["id"]].combine_chunks()
    if ids.null_count:
        raise InputError(f"{place}, column id: an id is null; drop these rows")
    kinds = table[by_name["kind"]].combine_chunks() if "kind" in by_name else None
    attributes = table.drop_columns([by_name[n] for n in ("id", "kind") if n in by_name])
    return VertexInput(ids, kinds, place, attributes if attributes.num_columns else None)


def _arrow_column(name: str, values: Any) -> tuple[pa.Field, pa.Array]:
    try:
        column = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return _unusable(name, len(values), first_line(error))
    return pa.field(name, column.type), column


def _unusable(name: str, rows: int, why: str) -> tuple[pa.Field, pa.Array]:
    """A column in place of one that cannot be read; only a program that needs it is refused."""
    return pa.field(name, pa.null(), metadata={UNUSABLE: why}), pa.nulls(rows)


def vertices_at(spark: SparkSession | None, path: str, separator: str | None = None) -> VertexInput:
    """Read a vertex file: an id per line, and perhaps a class name; or CSV or Parquet.

    Args:
        spark: reads files that are not on this machine.
        path: a file, directory or glob.
        separator: between the cells of CSV files.

    Raises:
        InputError: nothing is there, or a bad line.
    """
    local = files.local_path(path)
    if local is None:
        if spark is None:
            raise InputError(f"{path}: only Spark can read this; pass a session")
        from vertexsdk.graph.load.dataframes import whole_files

        contents = whole_files(spark, path)
    else:
        paths = files.expand([local])
        if np.fromfile(paths[0], np.uint8, 4).tobytes() == b"PAR1":
            return vertices_of(pq.read_table(paths), path)
        contents = {f: Path(f).read_bytes() for f in paths}
    texts, tables = [], []
    for name, data in contents.items():
        if name.endswith(PACKED):
            with files.unpacking(pa.BufferReader(data), name) as stream:
                data = bytes(stream.read())
        check_encoding(data[:HEAD], name)
        if is_csv(name):
            tables.append(_csv_table(data, name, CsvOptions(separator)))
        else:
            texts += [data.removeprefix(codecs.BOM_UTF8), b"\n"]
    place = ", ".join(contents)
    if texts and tables:
        raise InputError(f"{place}: some are CSV and some are not; give files of one form")
    if texts:
        return _vertex_lines(np.frombuffer(b"".join(texts), np.uint8), place)
    table = pa.concat_tables(tables, promote_options="default")
    ids = text_ids(table["id"].combine_chunks(), place)
    return _of_table(table.set_column(table.column_names.index("id"), "id", ids), place)


def _csv_table(data: bytes, place: str, options: CsvOptions) -> pa.Table:
    """Read CSV, all cells as strings; an empty cell is null."""

    def names(first: Sequence[str], second: Sequence[str]) -> Sequence[str] | None:
        if "id" in [n.lower() for n in first]:
            return None
        if len(first) > 2 or is_foreign_header(first, second):
            raise InputError(f"{place}: columns are {', '.join(first)}; name one `id`")
        return ("id", "kind")[: len(first)]

    layout = layout_of(data[:HEAD], place, options, names, others=";|\t")

    def first() -> int:
        return 1 + len(data[: layout.begin].splitlines())

    table, lines, bad = read_cells(data[layout.begin :], layout, place, first, across=True)
    if bad:
        raise InputError(f"{place}, line {first() + bad[0].line}: {bad[0]}")
    name = next(n for n in layout.columns if n.lower() == "id")
    there = filled(table[name])
    if not there.all():
        line = first() + lines[int(np.argmin(there))]
        raise InputError(f"{place}, line {line}: the id is empty; write one")
    return table.rename_columns(["id" if n == name else n for n in layout.columns])


def _vertex_lines(buffer: NDArray[np.uint8], place: str) -> VertexInput:
    begin = 0
    try:
        check_lengths(buffer, begin, len(buffer))
        lines = text.count_lines(buffer, begin, len(buffer)) + 1
        places = np.empty((lines, 2), np.int64)
        places = places[: text.first_two_fields(buffer, begin, len(buffer), places)]
        column = tokens(buffer, places[:, 0].copy())
        if len(column) and column[0].as_py().strip('"').lower() == "id":
            second = tokens(buffer, places[:1, 1].copy())[0].as_py()
            if second.strip('"').lower() not in ("", "kind"):
                raise InputError(
                    f"{place}: the first line has names of columns: name the file .csv (.tsv, with "
                    "tabs), or remove the line"
                )
            places, column = places[1:], column[1:]
        classed = places[:, 1] > 0
        kinds = None
        if classed.any():
            names = tokens(buffer, places[classed, 1])
            order = np.where(classed, np.cumsum(classed) - 1, -1)
            kinds = names.take(pa.array(order, mask=~classed))
    except LineError as error:
        line = 1 + int(text.count_lines(buffer, 0, error.position))
        raise error.at_line(f"{place}, line {line}", buffer) from None
    return VertexInput(text_ids(column, place), kinds, place)


def resolve(
    vertices: VertexInput | None, names: StringIds | None
) -> tuple[VertexTable | None, tuple[str, ...]]:
    """Return the vertices by int64 id or code, and the class names in order of their codes.

    Raises:
        NotIntegers: an id is a string, and `names` was not given.
        InputError: too many classes.
    """
    if vertices is None:
        return None, ()
    ids, last = last_rows(vertices, names)
    if vertices.kinds is None:
        return VertexTable(ids), ()
    classes = merged([vertices.kinds.drop_null()])
    if len(classes) >= NO_KIND:
        raise InputError(
            f"{vertices.place}: {len(classes)} classes; at most {NO_KIND - 1} can be used"
        )
    codes = pc.fill_null(pc.index_in(pc.cast(vertices.kinds, pa.large_string()), classes), NO_KIND)
    kind = np.asarray(codes).astype(np.uint8)[last]
    return VertexTable(ids, kind), tuple(classes.to_pylist())


def last_rows(
    vertices: VertexInput, names: StringIds | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct ids or codes, ascending, and the last row of each, which counts.

    Raises:
        NotIntegers: an id is a string, and `names` was not given.
    """
    if names is None:
        ids = id_array(vertices.column, vertices.place)
    else:
        ids = names.codes(vertices.strings())
    distinct, last = np.unique(ids[::-1], return_index=True)
    return distinct, len(ids) - 1 - last
