"""Edges in Arrow columns: Parquet files, and batches of a Spark DataFrame.

Columns are `source` and `target` (or GraphFrames' `src` and `dst`), integers or strings, and
optionally a numeric `value` (or `weight`); others are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from vertexsdk.arrays.buffers import allocate
from vertexsdk.arrays.packed_strings import is_text
from vertexsdk.arrays.threads import map_threaded
from vertexsdk.errors import InputError, excerpt, first_line
from vertexsdk.graph.load.adjacency_rows import Chunk
from vertexsdk.graph.load.condition import Condition
from vertexsdk.graph.load.lines import NotIntegers, Split
from vertexsdk.graph.load.text import LINE_BYTES
from vertexsdk.graph.topology.edge_attributes import (
    NO_INT,
    Members,
    attribute_members,
    attribute_types,
    cell,
    choices,
    member_numbers,
    pack,
)
from vertexsdk.graph.topology.string_ids import INTEGER, check_range

_ROWS = 1 << 19  # read at a time
_FEW_ROWS = 1 << 12
_KINDS = "use integers or strings"
_BYTES = 1 << 26  # of strings in these rows, if ids are long


def unreadable_parquet(path: str, error: Exception) -> InputError:
    """Return the error for a file that Arrow cannot read."""
    return InputError(f"{path}: not a readable Parquet file ({first_line(error)}); write it again")


class EdgeColumns(NamedTuple):
    """The columns of edges.

    Attributes:
        source, target, value: their names; None without a value.
        text: the cells were read from a text: ids are integers where all print back as such.
        condition: which rows are edges; None is all.
    """

    source: str
    target: str
    value: str | None
    text: bool = False
    condition: Condition | None = None

    @property
    def roles(self) -> dict[str, str]:
        """The column of each role."""
        ends = {"source": self.source, "target": self.target}
        return ends if self.value is None else {**ends, "value": self.value}

    def condition_columns(self, schema: pa.Schema, place: str) -> list[str]:
        """Return the columns that the condition reads.

        Raises:
            InputError: one is not there, or types do not fit.
        """
        if self.condition is None:
            return []
        return self.condition.sources(schema, self.roles, place, text=self.text)


def edge_columns(names: Sequence[str], place: str, *, text: bool = False) -> EdgeColumns:
    """Return the names of the source, target and value columns among `names`.

    Raises:
        InputError: a source or target column is missing.
    """
    by_name = {n.lower(): n for n in names}
    for source, target in (("source", "target"), ("src", "dst")):
        if source in by_name and target in by_name:
            value = by_name.get("value") or by_name.get("weight")
            return EdgeColumns(by_name[source], by_name[target], value, text)
    raise InputError(
        f"{place}: columns are {', '.join(names) or 'none'}; "
        "name them source,target[,value] (or src,dst[,weight])"
    )


def string_ids(schema: pa.Schema, place: str) -> bool:
    """Return whether a source or target column is of strings; `place` is for errors."""
    kinds = [schema.field(name).type for name in edge_columns(schema.names, place)[:2]]
    return any(is_text(k.value_type if pa.types.is_dictionary(k) else k) for k in kinds)


def attribute_columns(names: Sequence[str], value: str | None, place: str) -> list[str]:
    """Return the columns of the edge attributes that a program reads; [] for a single value.

    Raises:
        InputError: one is not there.
    """
    wanted = attribute_types(value)
    missing = [n for n in wanted if n not in names]
    if missing:
        raise InputError(
            f"{place}: columns are {', '.join(names)}; the program reads {', '.join(missing)} too"
        )
    return list(wanted)


def parquet_chunks(
    split: Split,
    value: str | None,
    threads: int,
    strings: Any = None,
    condition: Condition | None = None,
) -> Iterator[Chunk]:
    """Yield the edges of some row groups in order; arguments and errors as `read_chunks`."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(split.path) as file:
        names = edge_columns(file.schema_arrow.names, split.path)._replace(condition=condition)
        columns = [n for n in names[:3] if n is not None]
        columns += names.condition_columns(file.schema_arrow, split.path)
        more = attribute_columns(file.schema_arrow.names, value, split.path)
        columns = [*dict.fromkeys([*columns, *more])]
        texts = [n for n in columns if is_text(file.schema_arrow.field(n).type)]

    def read(group: int) -> list[Chunk]:
        try:
            rows, shared = _reading(split.path, group, texts)
            with pq.ParquetFile(split.path, read_dictionary=shared) as file:
                batches = file.iter_batches(
                    batch_size=rows, row_groups=[group], columns=columns, use_threads=False
                )
                return [batch_chunk(b, names, value, split.path, strings) for b in batches]
        except (pa.ArrowException, OSError) as error:
            raise unreadable_parquet(split.path, error) from None

    for chunks in map_threaded(read, range(split.begin, split.end), threads):
        yield from chunks
    pa.default_memory_pool().release_unused()  # before the edges are sorted, the peak


def _reading(path: str, group: int, texts: Sequence[str]) -> tuple[int, list[str]]:
    """Choose how to read strings, as a few bytes may encode a long string in very many rows.

    Returns:
        The number of rows to read at a time, and the columns to read as dictionaries.
    """
    import pyarrow.parquet as pq

    shared = []
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        columns = file.metadata.row_group(group)
        for column in map(columns.column, range(columns.num_columns)):
            name, encodings = column.path_in_schema, {*column.encodings}
            if name not in texts:
                continue
            if "DELTA_BYTE_ARRAY" in encodings:  # each string may be the one before and a letter
                return _FEW_ROWS, []
            if encodings & {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}:
                first = next(file.iter_batches(1, [group], [name]), None)
                strings = first.column(0).dictionary if first is not None else pa.array([], "str")
                if (pc.max(pc.binary_length(strings)).as_py() or 0) > _BYTES // _ROWS:
                    shared.append(name)
    return _ROWS, shared


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join record batches into batches of about half a million rows."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(b.num_rows for b in pending) >= _ROWS or sum(b.nbytes for b in pending) >= _BYTES:
            yield from pa.Table.from_batches(pending).combine_chunks().to_batches()
            pending = []
    if pending:
        yield from pa.Table.from_batches(pending).combine_chunks().to_batches()


def batch_chunk(
    batch: pa.RecordBatch,
    names: EdgeColumns,
    value: str | None,
    place: str,
    strings: Any = None,
) -> Chunk:
    """Return the edges of a record batch; ids are int32 if they fit.

    Args:
        batch: the rows.
        names: the source, target and value columns.
        value: "float64" or "int64"; None only checks values.
        place: the origin of the batch, for messages.
        strings: for string ids, a function from an Arrow string array to int64 codes.

    Raises:
        NotIntegers: ids are strings, and `strings` was not given.
        InputError: an id is null or of another type, or a value is not a number, or not a member
            of the attribute's IntEnum.
    """
    given = len(batch)
    if names.condition is not None:
        batch = names.condition.rows(batch, names.roles, place, text=names.text)
    source, target = (
        _ids(batch.column(name), f"{place}, column {name}", strings, names.text)
        for name in names[:2]
    )
    values = None
    valued = 0
    attributes, members = attribute_types(value), attribute_members(value)
    if attributes:
        attribute_columns(batch.schema.names, value, place)
        values = pack(
            [
                _members(batch, name, members[name], names, place)
                if name in members
                else _values(batch.column(name), kind, f"{place}, column {name}")
                for name, kind in attributes.items()
            ]
        )
        valued = len(batch)
    elif names[2] is not None:
        column = batch.column(names[2])
        valued = len(column) - column.null_count
        numbers = _values(column, value, f"{place}, column {names[2]}")
        values = numbers if value is not None else None
    elif value is not None:
        values = allocate(len(batch), value)
        values[:] = 1
    return Chunk(source, target, values, valued, given - len(batch))


def _ids(column: pa.Array, place: str, strings: Any, text: bool) -> NDArray[Any]:
    if column.null_count:
        raise InputError(f"{place}: an id is null; drop these rows")
    if pa.types.is_dictionary(column.type):
        values, indices = _in_use(column)
        return np.asarray(_ids(values, place, strings, text)[np.asarray(indices)])
    if text:
        column = text_ids(column, place)
    if strings is not None:
        return np.asarray(strings(as_strings(column, place)))
    ids = id_array(column, place)
    narrow = len(ids) and ids.min() >= -(2**31) and ids.max() < 2**31
    copy = allocate(len(ids), np.int32 if narrow else np.int64)
    copy[:] = ids
    return copy


def _in_use(column: pa.DictionaryArray) -> tuple[pa.Array, pa.Array]:
    """Return the values of a dictionary that occur in rows, and each row's index or null."""
    indices = column.indices
    counts = np.bincount(np.asarray(indices.drop_null()), minlength=len(column.dictionary))
    new_indices = pa.array(np.cumsum(counts > 0) - 1)
    return column.dictionary.filter(pa.array(counts > 0)), new_indices.take(indices)


def as_strings(column: pa.Array, place: str) -> pa.Array:
    """Return an id column as strings.

    Raises:
        InputError: another type, or an id of more than `LINE_BYTES`.
    """
    _check_ids(column, place)
    if is_text(column.type) and (pc.max(pc.binary_length(column)).as_py() or 0) > LINE_BYTES:
        raise InputError(f"{place}: an id is longer than {LINE_BYTES:,} bytes; shorten it")
    return pc.cast(column, pa.large_string())


def text_column(ids: Iterable[Any]) -> pa.Array:
    """Return ids as a column of strings.

    Raises:
        InputError: an id has a lone surrogate, which UTF-8 cannot encode.
    """
    try:
        return pa.array([str(i) for i in ids], pa.large_string())
    except UnicodeEncodeError as error:
        raise InputError(
            f"id {error.object[:40]!r} is not valid in UTF-8 (a lone surrogate): rename it"
        ) from None


def text_ids(ids: pa.Array, place: str) -> pa.Array:
    """Return the ids of a text: as int64 if each of them prints back as it is written.

    Raises:
        InputError: an integer beyond int64.

    >>> text_ids(pa.array(["7", "-1"]), "a.csv").type, text_ids(pa.array(["007"]), "a.csv").type
    (DataType(int64), DataType(string))
    """
    if not is_text(ids.type):
        return ids
    check_range(ids, place)
    if pc.all(pc.match_substring_regex(ids, INTEGER)).as_py():
        return pc.cast(ids, pa.int64())
    return ids


def _check_ids(column: pa.Array, place: str) -> None:
    """Raise InputError for no ids, or strings not in UTF-8, which writers of Parquet let pass."""
    if not (is_text(column.type) or pa.types.is_integer(column.type)):
        raise InputError(f"{place}: {column.type}; ids are integers or strings, cast the column")
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise InputError(f"{place}: an id is not UTF-8 text; write the column in UTF-8") from None


def id_array(column: pa.Array, place: str) -> NDArray[np.int64]:
    """Return a column of ids as int64.

    Raises:
        NotIntegers: they are strings.
        InputError: another type, or an id beyond int64.
    """
    _check_ids(column, place)
    if is_text(column.type):
        first = f": {excerpt(column[0].as_py())}" if len(column) else ""
        raise NotIntegers(f"{place}{first}: not an integer id, but a string")
    try:
        return np.asarray(pc.cast(column, pa.int64()))
    except pa.ArrowInvalid as error:
        raise InputError(f"{place}: an id is beyond int64 ({first_line(error)})") from None


def _values(column: pa.Array, value: str | None, place: str) -> NDArray[Any]:
    indices = None
    if pa.types.is_dictionary(column.type):
        column, indices = _in_use(column)
    kind = column.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (numeric or pa.types.is_null(kind) or is_text(kind)):
        raise InputError(f"{place}: {kind}; values are numbers, cast the column")
    try:
        if is_text(kind):
            column = pc.cast(pc.utf8_trim_whitespace(column), pa.float64())
        if value == "int64":
            column = pc.cast(column, pa.int64())
        elif not pa.types.is_integer(kind) or value is not None:
            column = pc.cast(column, pa.float64(), safe=False)
    except pa.ArrowInvalid as error:
        kind = "an int64 integer" if value == "int64" else "a number"
        raise InputError(f"{place}: a value is not {kind} ({first_line(error)})") from None
    if indices is not None:
        column = column.take(indices)
    column = pc.fill_null(column, 1)
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        raise InputError(f"{place}: a value is NaN; drop these rows or give them numbers")
    array = np.asarray(column)
    copy = allocate(len(array) if value else 0, value or np.int64)
    if value:
        copy[:] = array
    return copy


def _members(
    batch: pa.RecordBatch, name: str, members: Members, names: EdgeColumns, place: str
) -> NDArray[np.int64]:
    """Return the numbers of an attribute's members; a null is the first member."""
    column = batch.column(name)
    numbers, wrong = member_numbers(column, members)
    if wrong.any():
        k = int(np.argmax(wrong))
        x, source, target = (cell(batch.column(n), k) for n in (name, *names[:2]))
        raise InputError(
            f"{place}, column {name}: {excerpt(x)} of the edge {excerpt(source)} -> "
            f"{excerpt(target)} is not one of {choices(members)}"
        )
    numbers[numbers == NO_INT] = next(iter(members.values()))
    return numbers


def id_column(ids: ArrayLike) -> pa.Array:
    """Return an array of ids as an Arrow column of integers or strings.

    Raises:
        InputError: they are neither.
    """
    array = np.asarray(ids)
    if array.size == 0:
        return pa.array([], pa.int64())
    if array.dtype.kind in "iu":
        return pa.array(array)
    if array.dtype.kind in "UTO":
        values = array.tolist()
        if array.dtype.kind == "O":
            other = next((x for x in values if not isinstance(x, (int, np.integer, str))), None)
            if other is not None or None in values:
                raise InputError(f"id {excerpt(other)} is {type(other).__name__}; {_KINDS}")
            if not any(isinstance(x, str) for x in values):
                try:
                    return pa.array([int(x) for x in values], pa.int64())
                except OverflowError:
                    raise InputError("an id is beyond int64; use strings") from None
        return text_column(values)
    raise InputError(f"ids are {array.dtype}; {_KINDS}")
