"""State elements: what a stateful class keeps, and how it is divided among partitions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any, ClassVar, Self, TypeAlias, overload

from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.program.keyed import CELLS, KINDS, VALUE, TableSpec
from vertexsdk.program.keyed_state import Journal, as_seen, state_in_memory

_TAKEN = {"id", "kind", "name", "class"}  # columns of the store


def choose_element(of: str, elements: Collection[str], element: str | None) -> str:
    """Return the name of a state element; None names the only one.

    Args:
        of: what has the elements, for the error.
        elements: their names.
        element: as the user named it.

    Raises:
        InputError: there is no such element, or there are several and none was named.
    """
    if element is None and len(elements) == 1:
        return next(iter(elements))
    if element is None or element not in elements:
        raise InputError(
            f"{of} has the state elements {', '.join(elements)}: give one of them as element="
        )
    return element


def _kind_of(declared: object, allowed: tuple[str, ...], what: str) -> str:
    for kind in allowed:
        if declared is KINDS[kind]:
            return kind
    shown = getattr(declared, "__name__", None) or excerpt(declared)
    raise ProgramError(f"{what} {shown} is not supported: use {', '.join(allowed)}")


class Map:
    """A map from keys to values, or to rows of named fields.

    A key that has no row reads as 0, 0.0, False or "". `get`, `pop`, `setdefault`, `in` and `del`
    are those of a dict.

    Args:
        key: the type of the keys: `int` (64 bits) or `str`.
        value: the type of the values: `int` (64 bits), `float`, `bool` or `str`.
        fields: in place of one value, the type of each field: `self.users[user].visits += 1`.

    Raises:
        ProgramError: a type that is not supported, or a field that cannot be called so.

    Example:
        >>> Map(str, int)
        Map(str, int)
        >>> Map(int, visits=int, last=float)
        Map(int, visits=int, last=float)
    """

    def __init__(self, key: type, value: type | None = None, /, **fields: type) -> None:
        if (value is None) == (not fields):
            raise ProgramError(
                "Map takes the type of its values, as Map(int, float), or named fields, as "
                "Map(int, count=int, last=float)"
            )
        self.key = _kind_of(key, ("int", "str"), "Map: a key of type")
        declared = fields if value is None else {VALUE: value}
        for name in fields:
            if name in _TAKEN or name.startswith("_"):
                raise ProgramError(f"Map: a field cannot be called {name!r}; rename it")
        self.single = not fields
        self.fields = {
            name: _kind_of(kind, tuple(KINDS), "Map: a value of type")
            for name, kind in declared.items()
        }

    def __repr__(self) -> str:
        values = self.fields.items()
        shown = [kind if self.single else f"{name}={kind}" for name, kind in values]
        return f"Map({', '.join([self.key, *shown])})"

    @property
    def options(self) -> dict[str, Any]:
        """What a `TableSpec` has of it."""
        return {"form": "map"}


class Value:
    """One value: `self.total.value += 1`.

    Args:
        value: its type: `int` (64 bits), `float`, `bool` or `str`.

    Raises:
        ProgramError: a type that is not supported.

    Example:
        >>> Value(int)
        Value(int)
    """

    key, single = "int", True
    options: ClassVar[dict[str, Any]] = {"form": "value"}

    def __init__(self, value: type) -> None:
        self.fields = {VALUE: _kind_of(value, tuple(KINDS), "Value: a value of type")}

    def __repr__(self) -> str:
        return f"Value({self.fields[VALUE]})"


class Array:
    """Numbers at the places 0, 1, ... size - 1.

    Args:
        value: their type: `int` (64 bits) or `float`.
        size: how many.

    Raises:
        ProgramError: a type or size that is not supported.

    Example:
        >>> Array(float, size=28)
        Array(float, size=28)
    """

    key, single = "int", True

    def __init__(self, value: type, *, size: int) -> None:
        self.fields = {VALUE: _kind_of(value, ("int", "float"), "Array: a value of type")}
        if not isinstance(size, int) or size < 1:
            raise ProgramError(f"Array: size is {excerpt(size)}; give the number of places")
        self.size = size

    @property
    def options(self) -> dict[str, Any]:
        """What a `TableSpec` has of it."""
        return {"form": "array", "size": self.size}

    def __repr__(self) -> str:
        return f"Array({self.fields[VALUE]}, size={self.size})"


class Matrix:
    """A sparse matrix of floats: `self.ratings[user, item]`, `self.ratings.row(user)`.

    Where a cell has no value it reads as 0.0. `row` and `column` return a `SparseVector`,
    `multiply` takes and returns one; `clear` removes a row. `Matrix` by itself is
    `Matrix(int, int)`.

    Args:
        row, column: the types of their keys: `int` (64 bits) or `str`.
        by: "row", or "column" where columns are accessed in place of rows.

    Raises:
        ProgramError: a type that is not supported, or another `by`.

    Example:
        >>> Matrix(str, int)
        Matrix(str, int)
    """

    single = True

    def __init__(self, row: type = int, column: type = int, *, by: str = "row") -> None:
        kinds = [_kind_of(kind, ("int", "str"), "Matrix: a key of type") for kind in (row, column)]
        if by not in ("row", "column"):
            raise ProgramError(f"Matrix: by={excerpt(by)}: give 'row' or 'column'")
        self._shown = f"Matrix({', '.join(kinds)})"
        self.by_column = by == "column"
        self.key, self.minor = reversed(kinds) if self.by_column else kinds
        self.fields = {CELLS: "str"}

    @property
    def options(self) -> dict[str, Any]:
        """What a `TableSpec` has of it."""
        return {"form": "matrix", "minor": self.minor, "by_column": self.by_column}

    def __repr__(self) -> str:
        return self._shown[:-1] + (", by='column')" if self.by_column else ")")


Element: TypeAlias = "Map | Value | Array | Matrix"


class StateElement:
    """What a class keeps, and where: the base of `Partitioned`, `PerPartition` and `Broadcast`.

    Args:
        element: what is kept.

    Attributes:
        where: as `TableSpec` has it.
        key: the name of the key; "" for none.

    Raises:
        ProgramError: that is not a `Map`, `Value`, `Array` or `Matrix`.
    """

    where: ClassVar[str]

    def __init__(self, element: Element | type[Matrix]) -> None:
        element = Matrix() if element is Matrix else element
        if not isinstance(element, Map | Value | Array | Matrix):
            raise ProgramError(
                f"{type(self).__name__}({excerpt(element)}): give a Map, as Map(int, float), a "
                "Value, Array or Matrix"
            )
        self.element, self.key, self.name = element, "", ""
        self._combine: Callable[[Any, Any], Any] = operator.add

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.element!r})"

    @property
    def spec(self) -> TableSpec:
        """The types of the element's keys and fields."""
        element = self.element
        return TableSpec(
            self.name, element.key, element.fields, element.single, self.where,
            combine=self._combine, **element.options,
        )  # fmt: skip

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: type | None = None) -> Any: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        names = instance.__dict__
        if self.name not in names:
            journal = names.setdefault("_journal", Journal())
            names[self.name] = as_seen(self.spec, state_in_memory(self.spec, journal))
        return names[self.name]


class Partitioned(StateElement):
    """A state element whose rows are divided among the partitions by their keys.

    Args:
        element: what is kept: a `Map`, a `Matrix`, an `Array` by its places, or a `Value`, which
            one of the partitions has.
        key: what the methods call the key. Calls of a method that has it as a parameter go to its
            partition at once. A `Value` has none.

    Raises:
        ProgramError: the element is not one, or the key is not a name.

    Example:
        >>> from vertexsdk import Stateful
        >>> class Balance(Stateful):
        ...     cents = Partitioned(Map(int, int), key="account")
        ...     def add(self, account: int, amount: int) -> int:
        ...         self.cents[account] += amount
        ...         return self.cents[account]
        >>> Balance().add(7, 250)
        250
    """

    where = "key"

    def __init__(self, element: Element | type[Matrix], *, key: str = "") -> None:
        super().__init__(element)
        wanted = not isinstance(element, Value)
        if not isinstance(key, str) or (wanted and not key.isidentifier()):
            raise ProgramError(
                f"Partitioned(..., key={excerpt(key)}): give the name of a parameter, as key='user'"
            )
        self.key = key


class PerPartition(StateElement):
    """A state element of which every partition has one of its own, the paper's partial state.

    A call changes the one of the partition where it is. `on_all` reads those of all partitions, and
    `gather_all` has their values in a list, to be merged.

    Args:
        element: what is kept.
        combine: returns one value for the two of a key, where partitions become fewer; of numbers
            their sum.

    Raises:
        ProgramError: there is no `combine` for values that are not numbers.

    Example:
        >>> from vertexsdk import Stateful, gather_all, on_all
        >>> class Words(Stateful):
        ...     number = PerPartition(Value(int))
        ...     def add(self, line: str) -> None:
        ...         self.number.value += len(line.split())
        ...     def count(self) -> int:
        ...         return sum(gather_all(on_all(self.number).value))
        >>> words = Words()
        >>> words.add("to be or not to be")
        >>> words.count()
        6
    """

    where = "partition"

    def __init__(
        self, element: Element | type[Matrix], *, combine: Callable[[Any, Any], Any] | None = None
    ) -> None:
        super().__init__(element)
        kinds = set() if isinstance(self.element, Matrix) else set(self.element.fields.values())
        if combine is None and kinds & {"bool", "str"}:
            raise ProgramError(
                f"{self!r}: give combine=, a function of two values of a key that returns one, for "
                "when partitions become fewer"
            )
        self._combine = combine or operator.add


class Broadcast(StateElement):
    """A state element that is the same on all partitions: read where a call is, written on all.

    Args:
        element: what is kept.

    Raises:
        ProgramError: `element` is not a `Map`, `Value`, `Array` or `Matrix`.

    Example:
        >>> from vertexsdk import Stateful
        >>> class Flags(Stateful):
        ...     flags = Broadcast(Map(str, bool))
        ...     def switch(self, flag: str, on: bool) -> None:
        ...         self.flags[flag] = on
        ...     def is_on(self, flag: str) -> bool:
        ...         return self.flags[flag]
        >>> flags = Flags()
        >>> flags.switch("dark", True)
        >>> flags.is_on("dark"), flags.is_on("light")
        (True, False)
    """

    where = "everywhere"
