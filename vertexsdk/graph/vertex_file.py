"""Vertices named apart from the edges: their ids, classes and attributes.

A vertex file has an id per line, and perhaps the name of the vertex's class; or it is a table with
columns `id`, perhaps `kind`, and attributes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from vertexsdk.errors import InputError, excerpt, first_line
from vertexsdk.graph.load import _files as files
from vertexsdk.graph.load import _text as text
from vertexsdk.graph.load._lines import LineError, check_lengths, tokens
from vertexsdk.graph.load.arrow import as_strings, id_array, id_column, text_ids
from vertexsdk.graph.load.build_topology import NO_KIND, VertexTable
from vertexsdk.graph.string_ids import StringIds, merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNUSABLE = b"unusable"  # metadata of a column whose values cannot be read: why
_TABLE_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?[ \"]*id[ \"]*([,\t])[^\r\n]*", re.IGNORECASE)


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
        """Take ids, or columns by name, of which one is `id`.

        Raises:
            InputError: there is no column `id`, or lengths differ.
        """
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
    both = [more, vertices.column]
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
        raise InputError(f"{excerpt(vertex)} is no vertex: the graph's ids are integers") from None


def vertices_of(frame: DataFrame | pa.Table, place: str = "the vertices") -> VertexInput:
    """Take a DataFrame of Spark or an Arrow table with columns `id`, perhaps `kind`, attributes.

    Raises:
        InputError: there is no column `id`.
    """
    if isinstance(frame, pa.Table):
        return _of_table(frame, place)
    from vertexsdk.graph.load._dataframes import collected

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


def vertices_at(spark: SparkSession | None, path: str) -> VertexInput:
    """Read a vertex file: an id per line, and perhaps a class name; or a table with a header.

    Raises:
        InputError: nothing is there, or a bad line.
    """
    local = files.local_path(path)
    if local is None:
        if spark is None:
            raise InputError(f"{path}: only Spark can read this; pass a session")
        from vertexsdk.graph.load._dataframes import fetched, readable, text_lines

        with readable(path):
            (lines,) = fetched(text_lines(spark, [path]), ["value"], path)
        paths, parts = [path], [np.frombuffer("\n".join(lines.to_pylist()).encode(), np.uint8)]
    else:
        paths = files.expand([local])
        if np.fromfile(paths[0], np.uint8, 4).tobytes() == b"PAR1":
            return vertices_of(pq.read_table(paths), path)
        parts = [np.fromfile(f, np.uint8) for f in paths]
    headers = [_TABLE_HEADER.match(p) for p in parts]  # type: ignore[call-overload]
    if any(h is not None and _names_attributes(h) for h in headers):
        tables = [_csv_table(p.tobytes(), *x) for p, *x in zip(parts, headers, paths, strict=True)]
        return _of_table(pa.concat_tables(tables, promote_options="default"), ", ".join(paths))
    newline = np.frombuffer(b"\n", np.uint8)
    joined = [b for p in parts for b in (p, newline)]
    return _vertex_lines(np.concatenate(joined), ", ".join(paths))


def _names_attributes(header: re.Match[bytes]) -> bool:
    names = header.group().removeprefix(b"\xef\xbb\xbf").lower().split(header.group(1))
    return not {n.strip(b' "') for n in names} <= {b"id", b"kind"}


def _csv_table(data: bytes, header: re.Match[bytes] | None, place: str) -> pa.Table:
    """Read CSV, all cells as strings, blanks around them left out; an empty cell is null."""
    from pyarrow import csv

    if header is None:
        raise InputError(f"{place}: the first line is no header that begins with `id`; write one")
    separator = header.group(1).decode()
    names = [n.strip(' "') for n in header.group().decode("utf-8-sig", "replace").split(separator)]
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(column_names=names, skip_rows=1),
            csv.ParseOptions(delimiter=separator),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_string()), null_values=[""],
                strings_can_be_null=True, quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
    except pa.ArrowInvalid as error:
        raise InputError(f"{place}: {first_line(error)}") from None
    return pa.table({n: pc.utf8_trim_whitespace(table[n]) for n in names})


def _vertex_lines(buffer: NDArray[np.uint8], place: str) -> VertexInput:
    begin = 3 if bytes(buffer[:3]) == b"\xef\xbb\xbf" else 0
    try:
        check_lengths(buffer, begin, len(buffer))
        lines = text.count_lines(buffer, begin, len(buffer)) + 1
        places = np.empty((lines, 2), np.int64)
        places = places[: text.first_two_fields(buffer, begin, len(buffer), places)]
        column = tokens(buffer, places[:, 0].copy())
        if len(column) and column[0].as_py() == "id":
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
