"""State elements: what a stateful class keeps, and how it is divided among partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Self, overload

from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.program.keyed import ABSENT, KINDS, VALUE, MapAccess, TableSpec

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


class Journal:
    """What the call that runs has changed in a plain object, to take it back if it raises."""

    def __init__(self) -> None:
        self.running = False
        self._changes: list[tuple[dict[Any, Any], Any, Any]] = []

    def note(self, rows: dict[Any, Any], key: Any) -> None:
        """Remember the row of a key before it is changed."""
        if self.running:
            self._changes.append((rows, key, rows.get(key, ABSENT)))

    def begin(self) -> None:
        """Start a call."""
        self.running = True

    def end(self, *, undo: bool) -> None:
        """End the call; put back what it changed if `undo`."""
        changes, self._changes, self.running = self._changes, [], False
        if undo:
            for rows, key, value in reversed(changes):
                rows.pop(key, None)
                if value is not ABSENT:
                    rows[key] = value


class MapState(MapAccess):
    """The map of a plain object.

    Args:
        spec: the types of keys and values.
        journal: of the object.
    """

    def __init__(self, spec: TableSpec, journal: Journal) -> None:
        super().__init__(spec)
        self._rows: dict[Any, Any] = {}
        self._journal = journal

    def load(self, key: Any) -> Any:
        """Return the value of a key, a tuple where it has named fields, or `ABSENT`."""
        return self._rows.get(self.spec.convert_key(key), ABSENT)

    def store(self, key: Any, value: Any) -> None:
        """Set the value of a key; `ABSENT` removes it."""
        key = self.spec.convert_key(key)
        self._journal.note(self._rows, key)
        if value is ABSENT:
            self._rows.pop(key, None)
        else:
            self._rows[key] = value

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def keys(self) -> Iterator[Any]:
        """The keys that have a row."""
        return iter(self._rows)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """The keys that have a row, each with its value or row."""
        return ((key, self[key]) for key in self._rows)

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class Partitioned:
    """A state element whose rows are divided among the partitions by their keys.

    Args:
        element: what is kept, a `Map`.
        key: the name that the key has in every method which accesses the element: a parameter, or
            the variable of the method's loop.

    Raises:
        ProgramError: the element is not a `Map`, or the key is not a name.

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

    def __init__(self, element: Map, *, key: str) -> None:
        if not isinstance(element, Map):
            raise ProgramError(f"Partitioned({excerpt(element)}): give a Map, as Map(int, float)")
        if not isinstance(key, str) or not key.isidentifier():
            raise ProgramError(
                f"Partitioned(..., key={excerpt(key)}): give the name of a parameter, as key='user'"
            )
        self.element, self.key, self.name = element, key, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def spec(self) -> TableSpec:
        """The types of the element's keys and fields."""
        element = self.element
        return TableSpec(self.name, element.key, element.fields, element.single)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: type | None = None) -> MapState: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Self | MapState:
        if instance is None:
            return self
        names = instance.__dict__
        journal = names.setdefault("_journal", Journal())
        state: MapState = names.setdefault(self.name, MapState(self.spec, journal))
        return state
