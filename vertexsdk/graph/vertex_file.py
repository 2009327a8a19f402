"""Vertices named apart from the edges, and the classes of vertices.

A vertex file has an id per line, and perhaps the name of the vertex's class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from vertexsdk.errors import InputError, excerpt
from vertexsdk.graph.load import _files as files
from vertexsdk.graph.load import _text as text
from vertexsdk.graph.load._build_topology import NO_KIND, VertexTable
from vertexsdk.graph.load._lines import LineError, check_lengths, tokens
from vertexsdk.graph.load.arrow import as_strings, id_array, id_column, text_column
from vertexsdk.graph.string_ids import StringIds, beyond_int64, merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["VertexInput", "integer_id", "resolve", "vertices_at", "vertices_of", "with_ids"]


@dataclass(frozen=True)
class VertexInput:
    """Vertices named apart from the edges, and perhaps their classes."""

    column: pa.Array
    kinds: pa.Array | None
    place: str

    @classmethod
    def of(cls, ids: ArrayLike, kinds: Sequence[str] | None = None) -> VertexInput:
        """Take arrays."""
        named = None if kinds is None else pa.array(list(kinds), pa.string())
        return cls(id_column(ids), named, "the vertices")

    def strings(self) -> pa.Array:
        """The ids as strings."""
        return as_strings(self.column, self.place)


def with_ids(vertices: VertexInput | None, ids: Sequence[object]) -> VertexInput | None:
    """Return the vertices and some more, of no class."""
    if not ids:
        return vertices
    more = text_column(ids)
    if vertices is None:
        return VertexInput(more, None, "the vertices")
    kinds = None
    if vertices.kinds is not None:
        kinds = pa.concat_arrays([vertices.kinds, pa.nulls(len(more), vertices.kinds.type)])
    return VertexInput(pa.concat_arrays([vertices.strings(), more]), kinds, vertices.place)


def integer_id(vertex: Any) -> int:
    """Return a vertex id of a graph with integer ids.

    Raises:
        InputError: not an integer, or beyond int64.

    >>> integer_id("7")
    7
    """
    try:
        return int(np.int64(int(vertex)))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{excerpt(vertex)} is no vertex: the graph's ids are integers") from None


def vertices_of(frame: DataFrame | pa.Table, place: str = "the vertices") -> VertexInput:
    """Take a DataFrame of Spark or an Arrow table with columns `id` and perhaps `kind`.

    Raises:
        InputError: there is no column `id`, or there is an unknown column.
    """
    names = frame.column_names if isinstance(frame, pa.Table) else frame.columns
    by_name = {n.lower(): n for n in names}
    if "id" not in by_name:
        raise InputError(f"{place}: columns are {', '.join(names)}; name one `id`")
    unknown = [n for n in names if n.lower() not in ("id", "kind")]
    if unknown:
        raise InputError(
            f"{place}: nothing reads {', '.join(unknown)}; select id, and kind where vertices are "
            "of several classes"
        )
    wanted = [by_name[n] for n in ("id", "kind") if n in by_name]
    if isinstance(frame, pa.Table):
        columns = [pa.concat_arrays(frame[n].chunks) for n in wanted]
    else:
        from vertexsdk.graph.load._dataframes import ArrowBatches

        columns = ArrowBatches.of(frame, wanted, place).collect()
    return VertexInput(columns[0], columns[1] if len(columns) > 1 else None, place)


def vertices_at(spark: SparkSession | None, path: str) -> VertexInput:
    """Read a vertex file: an id per line, and perhaps a class name.

    Raises:
        InputError: nothing is there, or a bad line.
    """
    local = files.local_path(path)
    if local is None:
        if spark is None:
            raise InputError(f"{path}: only Spark can read this; pass a session")
        from vertexsdk.graph.load._dataframes import ArrowBatches, readable, text_lines

        with readable(path):
            lines = (
                ArrowBatches.of(text_lines(spark, [path]), ["value"], path).collect()[0].to_pylist()
            )
        return _vertex_lines(np.frombuffer("\n".join(lines).encode(), np.uint8), path)
    paths = files.expand([local])
    if files.file_format(paths[0]) == "parquet":
        return vertices_of(pq.read_table(paths), path)
    parts = [np.fromfile(f, np.uint8) for f in paths]
    newline = np.frombuffer(b"\n", np.uint8)
    joined = [b for p in parts for b in (p, newline)]
    return _vertex_lines(np.concatenate(joined), ", ".join(paths))


def _vertex_lines(buffer: NDArray[np.uint8], place: str) -> VertexInput:
    begin = 3 if bytes(buffer[:3]) == b"\xef\xbb\xbf" else 0
    try:
        check_lengths(buffer, begin, len(buffer))
        lines = text.count_lines(buffer, begin, len(buffer)) + 1
        at, size = np.empty((lines, 3), np.int32), np.empty((lines, 3), np.int32)
        rows = text.tokenize(buffer, begin, len(buffer), at, size)
        at, size = at[:rows], size[:rows]
        column = tokens(buffer, at[:, 0].copy(), size[:, 0].copy())
        wrong = beyond_int64(column)
        if wrong is not None:
            raise LineError(text.ID_RANGE, int(at[wrong, 0]))
        if rows and column[0].as_py() == "id":
            at, size, column = at[1:], size[1:], column[1:]
        classed = at[:, 1] >= 0
        kinds = None
        if classed.any():
            names = tokens(buffer, at[classed, 1].copy(), size[classed, 1].copy())
            order = np.where(classed, np.cumsum(classed) - 1, -1)
            kinds = names.take(pa.array(order, mask=~classed))
    except LineError as error:
        line = 1 + int(text.count_lines(buffer, 0, error.position))
        raise error.at_line(f"{place}, line {line}", buffer) from None
    return VertexInput(column, kinds, place)


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
    if names is None:
        ids = id_array(vertices.column, vertices.place)
    else:
        ids = names.codes(vertices.strings())
    # The last line for an id counts, as with edges.
    ids, last = np.unique(ids[::-1], return_index=True)
    if vertices.kinds is None:
        return VertexTable(ids), ()
    classes = merged([vertices.kinds.drop_null()])
    if len(classes) >= NO_KIND:
        raise InputError(
            f"{vertices.place}: {len(classes)} classes; at most {NO_KIND - 1} can be used"
        )
    codes = pc.fill_null(pc.index_in(pc.cast(vertices.kinds, pa.large_string()), classes), NO_KIND)
    kind = np.asarray(codes).astype(np.uint8)[::-1][last]
    return VertexTable(ids, kind), tuple(classes.to_pylist())
