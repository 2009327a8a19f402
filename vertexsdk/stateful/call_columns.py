"""The arguments of many calls, as users have them: iterables, arrays, tables, data frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.corruption import CorruptError, check_offsets
from vertexsdk.arrays.hash_index import Packed
from vertexsdk.arrays.packed_strings import PackedBytes, pack_arrow
from vertexsdk.engine.keyed.calls import Values, number_of_values, stored_values
from vertexsdk.errors import InputError
from vertexsdk.program.keyed import ABSENT, KINDS, Parameter

BLOCK = 1 << 16  # calls of a block
_FIRST = 1 << 10  # calls of the first block, where a parameter is bytes of any length
_BYTES = 1 << 27  # bytes of the others, about
_BINARY = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)  # fmt: skip


class Signature(Protocol):
    """The part of a method that its callers need."""

    @property
    def name(self) -> str:
        """The method's name."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The method's parameters, without `self`."""


def blocks_of(
    name: str, method: Signature, given: Sequence[Any], call: str | None = None
) -> Iterator[list[Values]]:
    """Yield the columns of the parameters, for so many calls at a time as a block has.

    Args:
        name: the names of class and method, for messages.
        call: what the user called, for messages; by default its `map`.
        method: whose parameters they are.
        given: what `map` was given: a table, or for each parameter its values, or one iterable of
            tuples.

    Raises:
        InputError: columns that are missing, of different lengths, or of another type.
    """
    parameters, call = method.parameters, call or f"{name}.map"
    if not parameters:
        raise InputError(f"{call}: {method.name} has no parameters; call it")
    table = table_of(given[0]) if len(given) == 1 else None
    if table is not None:
        given = [_column(call, table, parameter) for parameter in parameters]
        parameters = tuple(p for p, c in zip(parameters, given, strict=True) if c is not None)
        given = [column for column in given if column is not None]
    elif len(given) == 1 and len(parameters) > 1:
        given = _unzipped(call, given[0], len(parameters))
    if not 0 < len(given) <= len(parameters) or any(
        p.default is ABSENT for p in method.parameters if p not in parameters[: len(given)]
    ):
        names = ", ".join(p.name for p in method.parameters)
        raise InputError(
            f"{call} takes the values of {names}, one argument for each, or a table with these "
            "columns"
        )
    taken, what = parameters[: len(given)], "parameter" if call == f"{name}.map" else "column"
    sources = [_Source(f"{name}, {what} {p.name}", p, g) for p, g in zip(taken, given, strict=True)]
    widths = [p.width for p in taken]
    known = sum(width for width in widths if width is not None)
    most = _FIRST if None in widths else min(BLOCK, max(_BYTES // max(known, 1), 1))
    while True:
        parts = [source.take(most) for source in sources]
        lengths = {number_of_values(part) for part in parts}
        if len(lengths) > 1:
            raise InputError(f"{call}: the parameters have different numbers of values")
        count = lengths.pop()
        if not count:
            return
        by_name = {p.name: part for p, part in zip(taken, parts, strict=True)}
        yield [
            by_name[p.name] if p.name in by_name else stored_values(p.kind, [p.default] * count)
            for p in method.parameters
        ]
        size = sum(part.data.size for part in parts if isinstance(part, PackedBytes))
        most = min(BLOCK, max(_BYTES * count // max(size, 1), 1))


def table_of(given: Any) -> pa.Table | None:
    """Return an Arrow table of a table or data frame; None for anything else.

    Raises:
        InputError: two of its columns have the same name.
    """
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        _require_different(given.column_names)
        return given
    columns = getattr(given, "columns", None)
    if columns is None or callable(columns):
        return None
    _require_different(columns)
    if hasattr(given, "toArrow") and hasattr(given, "sparkSession"):
        return given.toArrow()
    if hasattr(given, "to_arrow"):
        return given.to_arrow()
    return pa.Table.from_pandas(given, preserve_index=False)


def _require_different(names: Iterable[Any]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"the table has {count} columns {name!r}: rename or drop all but one")


def _column(call: str, table: pa.Table, parameter: Parameter) -> Any:
    if parameter.name in table.column_names:
        return table[parameter.name]
    if parameter.default is ABSENT:
        raise InputError(
            f"{call}: the table has no column {parameter.name!r}; it has "
            f"{', '.join(table.column_names)}"
        )
    return None


def _unzipped(call: str, rows: Any, count: int) -> list[Any]:
    """Return a column for each parameter of an iterable of tuples."""
    columns: list[list[Any]] = [[] for _ in range(count)]
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != count:
            raise InputError(
                f"{call}: each item has to be a tuple of {count} values, or give the values of "
                "each parameter by itself"
            )
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return columns


class _Source:
    """The values of one parameter, taken a block at a time."""

    def __init__(self, what: str, parameter: Parameter, given: Any) -> None:
        self._what, self._parameter, self._at = what, parameter, 0
        self._column: NDArray[Any] | pa.ChunkedArray | PackedBytes | None = None
        self._rest: Iterator[Any] = iter(())
        given = (getattr(given, "to_arrow", None) and given.to_arrow()) or given
        if type(given).__module__.split(".")[0] == "pandas":
            given = given.to_numpy()
        if isinstance(given, str | bytes):
            raise InputError(f"{what}: {type(given).__name__} is one value; give a list of them")
        if isinstance(given, pa.Array):
            given = pa.chunked_array([given])
        if isinstance(given, np.ndarray) and parameter.kind == "bytes":
            self._column = self._rows(given)
        elif isinstance(given, PackedBytes):
            self._column = self._checked(given)
        elif isinstance(given, pa.ChunkedArray) or (
            isinstance(given, np.ndarray) and given.ndim == 1
        ):
            self._column = given
        elif isinstance(given, Iterable) and not isinstance(given, np.ndarray):
            self._rest = iter(given)
        else:
            raise InputError(f"{what}: give a list, an array of one dimension, or a column")

    def _rows(self, given: NDArray[Any]) -> NDArray[Any]:
        """Refuse an array that has not the bytes of each call."""
        if given.dtype.kind == "S":
            raise InputError(
                f"{self._what}: NumPy drops zeros at the end of values of type {given.dtype}; give "
                "a list of bytes, or an array of two dimensions"
            )
        if given.ndim != 1 and not (given.ndim == 2 and given.dtype.kind in "biufcmM"):
            raise InputError(
                f"{self._what}: give a list of bytes, a column, or an array of numbers of two "
                "dimensions, whose rows are taken as their bytes"
            )
        return given

    def _checked(self, given: PackedBytes) -> PackedBytes:
        """Refuse packed bytes whose offsets are not theirs, or of another parameter."""
        try:
            check_offsets(given.offsets, given.data.size, "offsets")
        except CorruptError as error:
            raise InputError(f"{self._what}: {error}") from None
        if self._parameter.kind != "bytes" or given.data.dtype != np.uint8:
            raise InputError(f"{self._what}: packed bytes are uint8, for a parameter of type bytes")
        return given

    def take(self, most: int) -> Values:
        """Return the next values."""
        if self._column is None:
            return self._converted(list(islice(self._rest, most)))
        low, self._at = self._at, self._at + most
        if isinstance(self._column, PackedBytes):
            offsets = self._column.offsets[low : self._at + 1]
            offsets = offsets if len(offsets) else np.zeros(1, np.int64)
            return PackedBytes(
                offsets - offsets[0], self._column.data[offsets[0] : offsets[-1]].copy()
            )
        part = self._column[low : self._at]
        return self._arrow(part) if isinstance(part, pa.ChunkedArray) else self._array(part)

    def _arrow(self, part: pa.ChunkedArray) -> Values:
        if part.null_count:
            raise InputError(f"{self._what}: there are nulls; fill them, or leave these rows out")
        kind, types = self._parameter.kind, pa.types
        if pa.types.is_dictionary(part.type):
            part = part.cast(part.type.value_type)
        if not self._parameter.as_given:
            return self._converted(part.to_pylist())
        if kind == "str" and (types.is_string(part.type) or types.is_large_string(part.type)):
            return self._packed(part, pa.large_string())
        if kind == "bytes" and any(is_kind(part.type) for is_kind in _BINARY):
            return PackedBytes(*self._packed(part, pa.large_binary()))
        if types.is_integer(part.type) or types.is_floating(part.type):
            return self._array(part.to_numpy())
        return self._converted(part.to_pylist())

    @staticmethod
    def _packed(part: pa.ChunkedArray, kind: pa.DataType) -> Packed:
        chunks = [chunk.cast(kind) for chunk in part.chunks]
        return pack_arrow(pa.concat_arrays(chunks or [pa.array([], kind)]), kind)

    def _array(self, part: NDArray[Any]) -> Values:
        """Return a copy: small blocks stay in memory until they are joined."""
        kind, dtype = self._parameter.kind, part.dtype
        if not self._parameter.as_given:
            return self._converted(list(part))
        if part.ndim == 2:
            data = np.array(part, order="C", copy=True).reshape(-1).view(np.uint8)
            return PackedBytes(np.arange(len(part) + 1) * (dtype.itemsize * part.shape[1]), data)
        if kind == "int" and dtype.kind in "iu":
            if dtype == np.uint64 and len(part) and int(part.max()) >= 1 << 63:
                return self._converted(part.tolist())
            return part.astype(np.int64)
        if kind == "float" and dtype.kind in "iuf":
            return part.astype(np.float64)
        if kind == "bool" and dtype.kind == "b":
            return part.copy()
        return self._converted(part.tolist())

    def _converted(self, values: list[Any]) -> Values:
        kind, convert = self._parameter.kind, self._parameter.convert
        as_given = self._parameter.as_given and kind != "int"
        as_given = as_given and set(map(type, values)) <= {KINDS[kind]}
        if as_given and kind == "str" and self._parameter.encodes:
            as_given = all(map(str.isascii, values))
        if as_given:
            return stored_values(kind, values)
        try:
            return stored_values(kind, list(map(convert, values)))
        except InputError as error:
            raise InputError(f"{self._what}: {error}") from None
