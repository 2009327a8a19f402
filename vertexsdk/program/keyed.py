"""A keyed program: typed tables partitioned by key, and the methods that take calls on their rows.

A stateful class becomes one. A method is a list of task elements, each of which accesses one state
element by one key; a call goes from one to the next as a row with the variables that are still
needed. What a value of a type is, and how a method sees the row of its key, is decided here, so
that a class as a plain object and on processors is the same thing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from vertexsdk.errors import InputError, excerpt

Function: TypeAlias = Callable[..., Any]
KINDS: Final[dict[str, type]] = {
    "int": int, "float": float, "bool": bool, "str": str, "bytes": bytes,
}  # fmt: skip
DTYPES: Final[dict[str, Any]] = {
    "int": np.int64, "float": np.float64, "bool": np.bool_, "str": object, "bytes": object,
}  # fmt: skip
NUMBERS: Final[dict[str, Any]] = {k: dtype for k, dtype in DTYPES.items() if dtype is not object}
DEFAULTS: Final[dict[str, Any]] = {
    "int": 0, "float": 0.0, "bool": False, "str": "", "bytes": b"",
}  # fmt: skip
_LIMIT = 1 << 63


def with_article(kind: str) -> str:
    """Return the name of a type as a sentence has it.

    >>> with_article("int"), with_article("bytes")
    ('an int', 'bytes')
    """
    return "bytes" if kind == "bytes" else f"{'an' if kind == 'int' else 'a'} {kind}"


class _Absent:
    """The value of a key without a row."""

    def __repr__(self) -> str:
        return "<absent>"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


def to_int(value: Any) -> int:
    """Return a value as an int of 64 bits.

    Raises:
        InputError: it is not one.

    >>> to_int(True)
    1
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{excerpt(value)} is not an int; convert it, or declare the type") from (
            None
        )
    if not -_LIMIT <= number < _LIMIT:
        raise InputError(f"{excerpt(number)} does not fit into 64 bits; use a str, or a float")
    return int(number)


def to_float(value: Any) -> float:
    """Return a value as a float.

    Raises:
        InputError: it is not a number.

    >>> to_float(1)
    1.0
    """
    if not isinstance(value, str | bytes):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
        except (TypeError, ValueError):
            pass
    raise InputError(f"{excerpt(value)} is not a float; convert it, or declare the type")


def to_bool(value: Any) -> bool:
    """Return a value as a bool.

    Raises:
        InputError: it is not one.

    >>> to_bool(True)
    True
    """
    if isinstance(value, bool) or type(value).__name__ == "bool":  # NumPy's
        return bool(value)
    raise InputError(f"{excerpt(value)} is not a bool; convert it, or declare the type")


def to_str(value: Any) -> str:
    """Return a value as a str.

    Raises:
        InputError: it is not one.

    >>> to_str("be")
    'be'
    """
    if isinstance(value, str):
        return str(value)
    raise InputError(f"{excerpt(value)} is not a str; convert it, or declare the type")


def to_bytes(value: Any) -> bytes:
    """Return a value as bytes.

    Raises:
        InputError: it is not bytes, a bytearray or a memoryview.

    >>> to_bytes(bytearray(b"be"))
    b'be'
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    how = "call its encode()" if isinstance(value, str) else "convert it"
    how = "call its tobytes()" if hasattr(value, "tobytes") else how
    raise InputError(f"{excerpt(value)} is not bytes; {how}, or declare the type")


CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": to_int, "float": to_float, "bool": to_bool, "str": to_str, "bytes": to_bytes,
}  # fmt: skip


@dataclass(frozen=True)
class TableSpec:
    """The table of one state element.

    Attributes:
        name: the state element's name.
        element: its `StateElement`: the types of keys and fields.
        where: "key", rows are where their keys belong; "partition", every partition has rows of
            its own; "everywhere", all partitions have the same rows.
        combine: returns one value for two of a key, where partitions become fewer.

    Example:
        >>> from vertexsdk import Map
        >>> TableSpec("counts", Map(str, int)).default
        0
    """

    name: str
    element: Any
    where: str = "key"
    combine: Function = operator.add

    @property
    def key(self) -> str:
        """The type of its keys: "int" or "str"."""
        return self.element.key  # type: ignore[no-any-return]

    @property
    def fields(self) -> Mapping[str, str]:
        """The type of each field, of `KINDS`, by name."""
        return self.element.fields  # type: ignore[no-any-return]

    @property
    def single(self) -> bool:
        """True if a row is stored as the value of its only field, not as a tuple."""
        return self.element.single  # type: ignore[no-any-return]

    @property
    def size(self) -> int | None:
        """The number of keys, which are 0, 1, ... size - 1; None for any keys."""
        return self.element.number_of_keys  # type: ignore[no-any-return]

    @cached_property
    def indexed(self) -> bool:
        """True if kernels find its rows, and a method sees the row of its key alone."""
        return self.where == "key" and "indexed" in vars(self.element.state)

    @cached_property
    def convert_key(self) -> Callable[[Any], Any]:
        """Turns a key into one of this table's type, or raises InputError or IndexError."""
        if self.size is None:
            return CONVERTERS[self.key]
        name, size = self.name, self.size

        def index(key: Any) -> int:
            number = to_int(key)
            if not 0 <= number < size:
                raise IndexError(f"{name} has the places 0 to {size - 1}, and not {number}")
            return number

        return index

    @cached_property
    def converters(self) -> tuple[Callable[[Any], Any], ...]:
        """Turn the value of each field into one of its type, or raise InputError."""
        return tuple(CONVERTERS[kind] for kind in self.fields.values())

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each field in a row."""
        return {name: k for k, name in enumerate(self.fields)}

    @cached_property
    def default(self) -> Any:
        """The value that reading a key without a row returns: a value, or a tuple of them."""
        values = tuple(DEFAULTS[kind] for kind in self.fields.values())
        return values[0] if self.single else values


class Row:
    """The fields of one key, as attributes; setting one adds the key if it has no row."""

    __slots__ = ("_access", "_key")

    def __init__(self, access: MapAccess, key: Any) -> None:
        object.__setattr__(self, "_access", access)
        object.__setattr__(self, "_key", key)

    def _values(self) -> tuple[Any, ...]:
        value = self._access.load(self._key)
        return self._access.spec.default if value is ABSENT else value  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        place = self._access.spec.places.get(name)
        if place is None:
            raise AttributeError(self._unknown(name))
        return self._values()[place]

    def __setattr__(self, name: str, value: Any) -> None:
        spec = self._access.spec
        place = spec.places.get(name)
        if place is None:
            raise AttributeError(self._unknown(name))
        values = list(self._values())
        values[place] = spec.converters[place](value)
        self._access.store(self._key, tuple(values))

    def _unknown(self, name: str) -> str:
        spec = self._access.spec
        return f"{spec.name} has no field {name!r}; it has {', '.join(spec.fields)}"

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self._asdict() == other._asdict()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{k}={v!r}' for k, v in self._asdict().items())})"

    def _asdict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(zip(self._access.spec.fields, self._values(), strict=True))

    def _copy(self) -> Row:
        """Return the row as it is now; setting its fields changes no state."""
        return Row(_Copied(self._access.spec, self._values()), self._key)

    def __reduce__(self) -> Any:
        return _copied_row, (self._access.spec, self._values())


def _copied_row(spec: TableSpec, values: tuple[Any, ...]) -> Row:
    return Row(_Copied(spec, values), None)


class MapAccess:
    """Access of methods to a map: the base of its state in a plain object and on a processor.

    Args:
        spec: the map's table.
    """

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec

    def load(self, key: Any) -> Any:
        """Return the value of a key, a tuple where it has named fields, or `ABSENT`."""
        raise NotImplementedError

    def store(self, key: Any, value: Any) -> None:
        """Set the value of a key; `ABSENT` removes it."""
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        if not self.spec.single:
            return Row(self, key)
        value = self.load(key)
        return self.spec.default if value is ABSENT else value

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self.spec.single:
            fields = ", ".join(self.spec.fields)
            raise InputError(f"{self.spec.name}[key] has the fields {fields}: set them one by one")
        self.store(key, self.spec.converters[0](value))

    def __delitem__(self, key: Any) -> None:
        if self.load(key) is ABSENT:
            raise KeyError(key)
        self.store(key, ABSENT)

    def __contains__(self, key: Any) -> bool:
        return self.load(key) is not ABSENT

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value or row of a key, or a default where it has none."""
        return default if self.load(key) is ABSENT else self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a key and return its value or row; without it the default, or KeyError."""
        if self.load(key) is ABSENT:
            if default:
                return default[0]
            raise KeyError(key)
        value = self[key]
        value = value._copy() if isinstance(value, Row) else value
        self.store(key, ABSENT)
        return value

    def setdefault(self, key: Any, default: Any) -> Any:
        """Return the value of a key, which becomes the default where it has none."""
        if self.load(key) is ABSENT:
            self[key] = default
        return self[key]


class _Copied(MapAccess):
    """The row of a copy."""

    def __init__(self, spec: TableSpec, value: Any) -> None:
        super().__init__(spec)
        self._value = value

    def load(self, key: Any) -> Any:
        """Return the value, whatever the key is."""
        return self._value

    def store(self, key: Any, value: Any) -> None:
        """Set the value, whatever the key is."""
        self._value = value


def answered(value: Any) -> Any:
    """Return what a method returned as the answer to its call: a row becomes a copy."""
    return value._copy() if isinstance(value, Row) else value


@dataclass(frozen=True)
class Parameter:
    """A parameter of a method.

    Attributes:
        kind: its type, of `KINDS`.
        default: `ABSENT` where it has none.
    """

    name: str
    kind: str
    default: Any = ABSENT

    @cached_property
    def convert(self) -> Callable[[Any], Any]:
        """Turns an argument into one of this type, or raises InputError."""
        return CONVERTERS[self.kind]

    @property
    def as_given(self) -> bool:
        """True if a value of its type is an argument as it is."""
        return True

    @property
    def encodes(self) -> bool:
        """True if a str has to be text that can be encoded."""
        return False

    @property
    def width(self) -> int | None:
        """The number of bytes of each value, 0 for the few of a number; None if they differ."""
        return None if self.kind == "bytes" else 0


class Onward(NamedTuple):
    """A task element's result: the call continues with another one.

    Attributes:
        element: its place in the method.
        key: to whose owner the row goes; None where the task element says where.
        values: its arguments.
    """

    element: int
    key: Any
    values: tuple[Any, ...]


class Each(NamedTuple):
    """A task element's result: rows of a loop's items, or to all partitions.

    Attributes:
        rows: for each item what `Onward` has, or -1, None and its result.
        then: the task element that takes the results of all of them in a list, as its last
            argument, and its other arguments; None where the call has ended.
    """

    rows: Sequence[tuple[int, Any, Any]]
    then: tuple[int, tuple[Any, ...]] | None


class Items(NamedTuple):
    """As `Each`, where all items go to one task element and differ in their keys alone.

    Attributes:
        element: its place in the method.
        keys: the keys of the items.
        values: the arguments of each, but for the key.
        same: which argument the key is; -1 for none.
        then: as of `Each`.
    """

    element: int
    keys: list[Any]
    values: tuple[Any, ...]
    same: int
    then: tuple[int, tuple[Any, ...]] | None


class ElementText(NamedTuple):
    """A task element as the compiler takes it: a function of the fields of a row.

    Attributes:
        body: its statements, which return whether there is a row then, whether it has changed, the
            fields that it may set, and the answer as three numbers.
        reads, stores: the fields that it reads or sets, and those that it may set.
        changes: it may set a field, or remove the row.
        names: the names of the arguments that it reads.
        arguments: the places and types of these arguments.
        constants: the names outside that it reads, with their types.
    """

    body: str
    reads: tuple[str, ...]
    stores: tuple[str, ...]
    changes: bool
    names: tuple[str, ...]
    arguments: tuple[tuple[int, str], ...]
    constants: tuple[tuple[str, str], ...]


class Batch(NamedTuple):
    """A method that takes many calls of another method of a state element at once.

    Attributes:
        name: the method's name, a key of `StateElement.batches`.
        places: the places of its arguments among those of the task element; the first is the key.
        answers: it returns the answers of the calls; else these are None.
    """

    name: str
    places: tuple[int, ...]
    answers: bool


@dataclass(frozen=True)
class TaskElement:
    """A part of a method that accesses one state element, by one key.

    Attributes:
        table: the name of the state element; None for none.
        send: where its rows go: "key", to the owner of their key; "here", nowhere; "all", to all
            partitions.
        body: called with the object and its arguments; returns the answer, `Onward`, `Each` or
            `Items`.
        level: the superstep in which it runs.
        writes: it may change the state element.
        alone: a call that raises here has changed nothing elsewhere.
        last: it always returns an answer.
        item: it runs for items of a loop, or on all partitions: its answer is one of many.
        whole: it reads all rows of the state element that a partition has.
        line: where its access is.
        text: for the compiler; None where Python runs it.
        interpreted: the line that keeps it from being compiled, and why.
        words: where it does no more than send the words of a text to a task element: the place of
            that argument, and of that task element in the method.
        batch: where it does no more than call a method of the state element that has one.
    """

    table: str | None
    send: str
    body: Function
    level: int
    writes: bool
    alone: bool
    last: bool
    item: bool
    whole: bool
    line: int
    text: ElementText | None = None
    interpreted: str = ""
    words: tuple[int, int] | None = None
    batch: Batch | None = None


@dataclass(frozen=True)
class KeyedMethod:
    """A method of a stateful class.

    Attributes:
        parameters: without `self`.
        elements: its task elements; a call begins with the first one, with all parameters.
        key: the parameter that has the key of the first one; None for none.
        serial: why its calls run one at a time, with the line; "" where they need not.
        file, line: where it is defined.
    """

    name: str
    parameters: tuple[Parameter, ...]
    elements: tuple[TaskElement, ...]
    key: str | None
    serial: str
    file: str
    line: int

    @cached_property
    def writes(self) -> bool:
        """True if it may change state."""
        return any(element.writes for element in self.elements)

    @cached_property
    def key_place(self) -> int:
        """The place of the key among the parameters; -1 where there is none."""
        names = [p.name for p in self.parameters]
        return names.index(self.key) if self.key in names else -1


@dataclass(frozen=True)
class KeyedProgram:
    """A stateful class, ready to run.

    Attributes:
        name: the class's name.
        cls: the class.
        tables: the tables of its state elements, by name.
        methods: the methods that can be called, by name.
        compiled: whether task elements are compiled; "require", before they run.
    """

    name: str
    cls: type
    tables: Mapping[str, TableSpec]
    methods: Mapping[str, KeyedMethod]
    compiled: bool | Literal["require"] = True

    def accesses_row(self, element: TaskElement) -> bool:
        """Return whether a task element accesses one row of a map that is divided by key."""
        spec = self.tables.get(element.table or "")
        return spec is not None and spec.indexed and not element.whole

    @property
    def classes(self) -> list[type]:
        """The class and those of its state elements."""
        elements = [table.element for table in self.tables.values()]
        return [self.cls, *(c for element in elements for c in (type(element), element.state))]

    def schema(self) -> dict[str, dict[str, Any]]:
        """Return the types of all fields, as a version stores them."""
        several = len(self.tables) > 1
        return {
            f"{name}.{field}" if several else field: {
                "type": kind,
                "element": name,
                "key": spec.key,
                **({} if spec.where == "key" else {"where": spec.where}),
            }
            for name, spec in self.tables.items()
            for field, kind in spec.fields.items()
        }
