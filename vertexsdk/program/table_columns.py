"""The columns of tables that triggers watch: their types, and how values are kept and stored.

A value in memory is immutable and compares with `==`: a list is a tuple, a vector is the bytes of
its numbers, a family is a dict that is replaced when a cell changes. So the row that a trigger last
saw costs a reference.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.program.keyed import CONVERTERS, DEFAULTS, DTYPES, KINDS, NUMBERS, Parameter
from vertexsdk.program.keyed_state import kind_of_type

_ITEMS = ("int", "float", "bool", "str")  # what JSON has


def to_text(value: Any) -> str:
    """Return a value as a str that can be encoded, as tables are Arrow's.

    Raises:
        InputError: it is not one.

    >>> to_text("be")
    'be'
    """
    text: str = CONVERTERS["str"](value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{excerpt(value)} has a half of a surrogate pair, which is not a character: "
                "decode the bytes with errors='replace', or store them as bytes"
            ) from None
    return text


def _converter(kind: str) -> Callable[[Any], Any]:
    """Return what converts a value to a type; NaN is one object, which equals itself."""
    convert = to_text if kind == "str" else CONVERTERS[kind]
    if kind != "float":
        return convert

    def number(value: Any) -> float:
        if value.__class__ is not float:
            value = convert(value)
        return value if value == value else math.nan

    return number


@dataclass(frozen=True)
class Column:
    """A column with one value of a simple type for each row.

    Args:
        name: the column's name.
        kind: the type of its values, of `KINDS`.
        default: the value of a row that has none.

    Example:
        >>> Column("count", "int", 0).convert(True)
        1
    """

    name: str
    kind: str
    default: Any

    @property
    def stored_kind(self) -> str:
        """The type of what is stored, of `KINDS`."""
        return self.kind

    @property
    def described(self) -> str:
        """The type, as a user declares it."""
        return self.kind

    def convert(self, value: Any) -> Any:
        """Return a value as this column keeps it.

        Raises:
            InputError: it is of another type.
        """
        return _CONVERT[self.kind](value)

    def store(self, value: Any) -> Any:
        """Return a kept value as it is stored, logged and sent."""
        return value

    def restore(self, stored: Any) -> Any:
        """Return the value that `store` returned."""
        return _CONVERT["float"](stored) if self.kind == "float" else stored

    def show(self, value: Any) -> Any:
        """Return a kept value as a user sees it."""
        return value

    def stack(self, values: list[Any]) -> Any:
        """Return kept values of many rows as one array, or a tuple of what a user sees."""
        if self.__class__ is not Column or self.kind not in NUMBERS:
            return tuple(map(self.show, values))
        stacked = np.array(values, NUMBERS[self.kind])
        stacked.flags.writeable = False
        return stacked


@dataclass(frozen=True)
class ListColumn(Column):
    """A column of lists, `list[str]`; `kind` is the type of the items."""

    @property
    def stored_kind(self) -> str:
        """JSON."""
        return "str"

    @property
    def described(self) -> str:
        """The type, as a user declares it."""
        return f"list[{self.kind}]"

    def convert(self, value: Any) -> Any:
        """Return a list as a tuple."""
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise InputError(f"{excerpt(value)} is not a list of {self.kind}; give a list")
        return tuple(map(_CONVERT[self.kind], value))

    def store(self, value: Any) -> Any:
        """Return the items as JSON."""
        return json.dumps(value)

    def restore(self, stored: Any) -> Any:
        """Return the items of JSON."""
        return tuple(map(_CONVERT[self.kind], json.loads(stored)))

    def show(self, value: Any) -> Any:
        """Return a list, which is the user's own."""
        return list(value)


@dataclass(frozen=True)
class VectorColumn(Column):
    """A column of vectors of one size; `kind` is the type of their numbers."""

    size: int

    @property
    def stored_kind(self) -> str:
        """The bytes of the numbers, little-endian."""
        return "bytes"

    @property
    def described(self) -> str:
        """The type, as a user declares it."""
        return f"Array({self.kind}, size={self.size})"

    def convert(self, value: Any) -> Any:
        """Return the bytes of a vector."""
        try:
            vector = np.asarray(value)
            kinds = "biu" if self.kind == "int" else "biuf"
            wrong = vector.shape != (self.size,) or vector.dtype.kind not in kinds
            if not wrong and self.kind == "int" and vector.dtype == np.uint64:
                wrong = bool((vector >= 1 << 63).any())
        except ValueError:  # lists of different lengths
            wrong = True
        if wrong:
            raise InputError(
                f"{excerpt(value)} is not a vector of {self.size} numbers of type {self.kind}"
            )
        return vector.astype(DTYPES[self.kind]).tobytes()

    def restore(self, stored: Any) -> Any:
        """Return the bytes that are stored."""
        return stored

    def show(self, value: Any) -> NDArray[Any]:
        """Return a vector that cannot be changed in place."""
        return np.frombuffer(value, DTYPES[self.kind])

    def stack(self, values: list[Any]) -> NDArray[Any]:
        """Return the vectors of many rows as an array (rows, size)."""
        return np.frombuffer(b"".join(values), DTYPES[self.kind]).reshape(-1, self.size)


@dataclass(frozen=True)
class FamilyColumn(Column):
    """A family of columns that are named at run time; `kind` is the type of their values.

    Args:
        names: the type of the names of its columns, "int" or "str".
    """

    names: str

    @property
    def stored_kind(self) -> str:
        """JSON."""
        return "str"

    @property
    def described(self) -> str:
        """The type, as a user declares it."""
        return f"Family({self.names}, {self.kind})"

    def convert(self, value: Any) -> Any:
        """Return cells as a dict."""
        pairs = value.items() if isinstance(value, Mapping) else value
        if isinstance(value, str | bytes) or not isinstance(pairs, Iterable):
            raise InputError(f"{excerpt(value)} is not a dict of cells; give a dict")
        try:
            cells = {self.convert_name(name): _CONVERT[self.kind](cell) for name, cell in pairs}
            return dict(sorted(cells.items()))
        except (TypeError, ValueError):
            raise InputError(f"{excerpt(value)} is not a dict of cells; give a dict") from None

    def convert_name(self, name: Any) -> Any:
        """Return the name of a column of the family."""
        return _CONVERT[self.names](name)

    def convert_cell(self, value: Any) -> Any:
        """Return the value of one cell."""
        return _CONVERT[self.kind](value)

    def store(self, value: Any) -> Any:
        """Return the cells as JSON."""
        return json.dumps(sorted(value.items()))

    def restore(self, stored: Any) -> Any:
        """Return the cells of JSON."""
        return self.convert(json.loads(stored))

    def show(self, value: Any) -> Any:
        """Return the cells as a dict that cannot be changed in place."""
        return types.MappingProxyType(value)


_CONVERT: dict[str, Callable[[Any], Any]] = {kind: _converter(kind) for kind in KINDS}


class Family:
    """The type of a family of columns of a `Table`: sparse cells that are named at run time.

    Args:
        name: the type of the names of the columns: `int` (64 bits) or `str`.
        value: the type of their values: `int` (64 bits), `float`, `bool` or `str`.

    Raises:
        ProgramError: a type that is not supported.

    Example:
        >>> Family(str, float)
        Family(str, float)
    """

    def __init__(self, name: type, value: type) -> None:
        self.name = kind_of_type(name, ("int", "str"), "Family: a name of type")
        self.value = kind_of_type(value, _ITEMS, "Family: a value of type")

    def __repr__(self) -> str:
        return f"Family({self.name}, {self.value})"


def _of_json(column: Column, text: str) -> Any:
    """Return what JSON stands for; names of JSON that are ints are texts there."""
    try:
        value = json.loads(text)
        if isinstance(column, FamilyColumn) and column.names == "int" and isinstance(value, dict):
            value = {int(name): cell for name, cell in value.items()}
    except ValueError:
        raise InputError(f"{excerpt(text)} is not JSON of a {column.described}") from None
    return value


@dataclass(frozen=True)
class ColumnParameter(Parameter):
    """The parameter of a method that takes a column as it is stored.

    Args:
        column: which has a value; what is a text is JSON where that has several.
    """

    column: Column = Column("", "int", 0)

    @cached_property
    def convert(self) -> Callable[[Any], Any]:
        """Turns a user's value into a stored one, or raises InputError."""
        column = self.column
        if column.__class__ is Column:
            return column.convert

        def stored(value: Any) -> Any:
            if isinstance(value, str):
                value = _of_json(column, value)
            return column.store(column.convert(value))

        return stored

    @property
    def as_given(self) -> bool:
        """True if a value of its type is an argument as it is."""
        return self.column.__class__ is Column

    @property
    def encodes(self) -> bool:
        """True: a str has to be text that can be encoded."""
        return True

    @property
    def width(self) -> int | None:
        """The number of bytes of each value, 0 for the few of a number; None if they differ."""
        if isinstance(self.column, VectorColumn):
            return self.column.size * int(np.dtype(DTYPES[self.column.kind]).itemsize)
        return super().width


def column_of(name: str, declared: Any, what: str) -> Column:
    """Return the column that a declaration stands for.

    Args:
        name: the column's name.
        declared: a type, a default, `list[T]`, `Array(float, size=n)` or `Family(str, float)`.
        what: begins the error.

    Raises:
        ProgramError: it is none of them.

    Example:
        >>> column_of("links", list[str], "pages").described
        'list[str]'
        >>> column_of("rank", 0.15, "pages").default
        0.15
    """
    if isinstance(declared, Family):
        return FamilyColumn(name, declared.value, {}, declared.name)
    size = getattr(declared, "size", None)
    if isinstance(size, int) and hasattr(declared, "fields"):  # the state element Array
        kind = declared.fields["value"]
        return VectorColumn(name, kind, np.zeros(size, DTYPES[kind]).tobytes(), size)
    if get_origin(declared) is list:
        kind = kind_of_type(get_args(declared)[0], _ITEMS, f"{what}.{name}: a list of")
        return ListColumn(name, kind, ())
    for kind, of in KINDS.items():
        if declared is of:
            return Column(name, kind, DEFAULTS[kind])
        if type(declared) is of:
            return Column(name, kind, _CONVERT[kind](declared))
    raise ProgramError(
        f"{what}.{name}: {excerpt(declared)} is not the type of a column: use int, float, bool, "
        "str, bytes, a default of one of them, list[T], Array(float, size=n) or Family(str, T)"
    )


def mismatch(column: Column, error: InputError) -> InputError:
    """Return the error of a value that is not of a column's type, with its name.

    >>> mismatch(Column("count", "int", 0), InputError("'a' is not an int"))
    InputError("column count: 'a' is not an int")
    """
    return InputError(f"column {column.name}: {error}")
