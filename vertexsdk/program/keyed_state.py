"""The contract of state elements: what one declares, and its rows in memory.

Rows in memory are dicts: those of a plain object, and on a processor all but those of maps that are
divided by key. A `Journal` has what was changed, so that a call that raises is taken back.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, ClassVar

from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.program.keyed import ABSENT, KINDS, TableSpec, answered, to_float

_TAKEN = {"id", "kind", "name", "class"}  # columns of the store


def field_name(column: str) -> str:
    """Return the name of the field that has a column of a user's table.

    >>> field_name("name"), field_name("rank")
    ('name_', 'rank')
    """
    return f"{column}_" if column in _TAKEN else column


class Journal:
    """The changes that calls have made, to undo them.

    Attributes:
        running: a call of a plain object runs, within which others are part of it.
    """

    def __init__(self) -> None:
        self.running = False
        self._changes: list[
            tuple[dict[Any, Any], Sequence[Any], Sequence[Any], RowsState | None, Sequence[Any]]
        ] = []

    def note(
        self, rows: dict[Any, Any], key: Any, state: RowsState | None = None, row: Any = None
    ) -> None:
        """Remember the value of a key before it is changed.

        Args:
            rows: the dict that has it.
            key: in that dict.
            state: the state element that is told when the change is taken back.
            row: the key of the row there.
        """
        if self.running:
            self._changes.append((rows, (key,), (rows.get(key, ABSENT),), state, (row,)))

    def note_all(
        self, rows: dict[Any, Any], keys: Sequence[Any], state: RowsState | None = None
    ) -> None:
        """Remember the values of rows before they are changed together.

        Args:
            rows: the dict that has them.
            keys: the keys of the rows.
            state: the state element that is told when the change is taken back.
        """
        if self.running:
            values = list(map(rows.get, keys, repeat(ABSENT)))
            self._changes.append((rows, keys, values, state, keys))

    def note_cells(
        self, cells: dict[Any, Any], columns: Sequence[Any], values: Sequence[Any],
        state: RowsState, row: Any,
    ) -> None:  # fmt: skip
        """Remember the values of cells of a row before they are changed together.

        Args:
            cells: the dict that has them.
            columns: their keys in that dict.
            values: the value of each, `ABSENT` where there is none.
            state: the state element that is told when the change is taken back.
            row: the key of the row there.
        """
        if self.running:
            self._changes.append((cells, columns, values, state, (row,)))

    def mark(self) -> int:
        """Return the place to which `undo` goes back."""
        return len(self._changes)

    def undo(self, mark: int) -> None:
        """Put back what was changed since a mark."""
        for rows, keys, values, state, touched in reversed(self._changes[mark:]):
            if state is not None:
                state.touch_all(touched)
            for key, value in zip(keys, values, strict=True):
                rows.pop(key, None)
                if value is not ABSENT:
                    rows[key] = value
        del self._changes[mark:]

    def clear(self) -> None:
        """Keep what was changed."""
        self._changes.clear()


class SparseVector:
    """Numbers by key, 0.0 where there is none; iterated as (key, number) in the order of keys.

    Args:
        cells: a dict, or (key, number) pairs.

    Example:
        >>> one, two = SparseVector({1: 2.0, 5: 1.0}), SparseVector([(5, 3.0)])
        >>> one + two
        SparseVector({1: 2.0, 5: 4.0})
        >>> list(one * 2), one[7], sum([one, two], SparseVector())[5]
        ([(1, 4.0), (5, 2.0)], 0.0, 4.0)
        >>> one.dot(two)
        3.0
    """

    __slots__ = ("_cells",)

    def __init__(self, cells: Mapping[Any, float] | Iterable[tuple[Any, float]] = ()) -> None:
        self._cells: dict[Any, float] = dict(cells)

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        return iter(sorted(self._cells.items()))

    def items(self) -> list[tuple[Any, float]]:
        """Return the keys with their numbers."""
        return list(self)

    def keys(self) -> list[Any]:
        """Return the keys that have a number, in order."""
        return sorted(self._cells)

    def values(self) -> list[float]:
        """Return the numbers, in the order of their keys."""
        return [value for _, value in self]

    def get(self, key: Any, default: float = 0.0) -> float:
        """Return the number of a key, or a default where there is none."""
        return self._cells.get(key, default)

    def __getitem__(self, key: Any) -> float:
        return self._cells.get(key, 0.0)

    def __setitem__(self, key: Any, value: float) -> None:
        self._cells[key] = to_float(value)

    def __contains__(self, key: object) -> bool:
        return key in self._cells

    def __len__(self) -> int:
        return len(self._cells)

    def __add__(self, other: SparseVector) -> SparseVector:
        if not isinstance(other, SparseVector):
            return NotImplemented
        total = SparseVector(self._cells)
        for key, value in other._cells.items():
            total._cells[key] = total[key] + value
        return total

    def __radd__(self, other: int) -> SparseVector:
        return self if other == 0 else NotImplemented  # sum() begins with 0

    def __mul__(self, factor: float) -> SparseVector:
        return SparseVector({key: value * factor for key, value in self._cells.items()})

    __rmul__ = __mul__

    def dot(self, other: SparseVector) -> float:
        """Return the sum of products of the numbers that both have."""
        return sum((value * other._cells[key] for key, value in self if key in other), 0.0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparseVector) and self._cells == other._cells

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SparseVector({dict(self)!r})"


_IMMUTABLE = frozenset({*KINDS.values(), type(None)})


def _copied(value: Any) -> Any:
    """Return a copy of a value; it is the value itself where no part of it can change."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is tuple and _IMMUTABLE.issuperset(map(type, value)):
        return value
    if kind is tuple:
        parts = list(map(_copied, value))
        return value if all(map(operator.is_, parts, value)) else tuple(parts)
    if kind is dict:
        return {key: _copied(part) for key, part in value.items()}
    return copy.deepcopy(value)


class RowsState:
    """The rows of a state element in memory, by key: the base of what methods see.

    A row is any value that is replaced when a call sets it. A dict may be changed in place, after
    `note`. What a method returns does not change later.

    Args:
        spec: the types of keys and fields.
        journal: takes what is changed.

    Attributes:
        element: the `StateElement`, with what it was given.
        rows: by key; `put` and `remove` change them.
        changed: keys whose rows have changed since they were last stored.

    Example:
        >>> from vertexsdk import StateElement
        >>> class LastState(RowsState):
        ...     def see(self, key, number):
        ...         self.put(key, max(self.row_of(key, 0), number))
        >>> class Last(StateElement):
        ...     state, writes = LastState, ("see",)
        >>> last = LastState(TableSpec("last", Last(str, number=int)), Journal())
        >>> last.see("a", 5)
        >>> last.see("a", 3)
        >>> last.row_of("a"), last.stored("b")
        (5, <absent>)
    """

    view: ClassVar[type | None] = None  # the class of what methods see, where that is another one

    def __init__(self, spec: TableSpec, journal: Journal) -> None:
        self.spec, self.journal, self.element = spec, journal, spec.element
        self.rows: dict[Any, Any] = {}
        self.changed: set[Any] = set()

    def row_of(self, key: Any, default: Any = None) -> Any:
        """Return the row of a key, a default where it has none.

        Raises:
            InputError: a key of another type.
        """
        return self.rows.get(self.spec.convert_key(key), default)

    def put(self, key: Any, row: Any) -> None:
        """Set the row of a key.

        Raises:
            InputError: a key of another type.
        """
        key = self.spec.convert_key(key)
        self.note(self.rows, key, key)
        self.rows[key] = row

    def remove(self, key: Any) -> None:
        """Remove the row of a key, if it has one.

        Raises:
            InputError: a key of another type.
        """
        key = self.spec.convert_key(key)
        self.note(self.rows, key, key)
        self.rows.pop(key, None)

    def put_all(self, keys: Sequence[Any], rows: Iterable[Any]) -> None:
        """Set the rows of several keys; where a key is there twice, the last one stays.

        Args:
            keys: keys of the type that the element declares, as a method of `batches` gets them.
            rows: one for each key.
        """
        self.note_all(keys)
        self.rows.update(zip(keys, rows, strict=True))

    def remove_all(self, keys: Sequence[Any]) -> None:
        """Remove the rows of several keys, of those that have one.

        Args:
            keys: as for `put_all`.
        """
        self.note_all(keys)
        for key in keys:
            self.rows.pop(key, None)

    def note_all(self, keys: Sequence[Any]) -> None:
        """Remember the rows of several keys before they are changed."""
        self.journal.note_all(self.rows, keys, self)
        self.changed.update(keys)
        self.touch_all(keys)

    def note(self, rows: dict[Any, Any], key: Any, row: Any) -> None:
        """Remember a value before it is changed, and which row has it.

        Args:
            rows: the dict that is changed: `rows`, or one that a row consists of.
            key: in that dict.
            row: the key of the row.
        """
        self.journal.note(rows, key, self, row)
        self.changed.add(row)
        self.touch(row)

    def touch(self, row: Any) -> None:
        """Be told that a row is about to change, or that a change is about to be taken back.

        What is computed of rows and kept has to be computed anew. By default nothing is kept.

        Args:
            row: its key.
        """

    def touch_all(self, rows: Sequence[Any]) -> None:
        """Be told so of several rows.

        Args:
            rows: their keys.
        """
        for row in rows:
            self.touch(row)

    def to_fields(self, row: Any) -> Any:
        """Return a row as it is stored: the value of its field, or a tuple of those of several."""
        return row

    def from_fields(self, fields: Any) -> Any:
        """Return the row that `to_fields` returned the fields of."""
        return fields

    def combine(self, one: Any, other: Any) -> Any:
        """Return one row for the two of a key, where partitions become fewer."""
        combine = self.spec.combine
        if self.spec.single:
            return self.spec.converters[0](combine(one, other))
        return tuple(map(combine, one, other))

    def describe(self, key: Any) -> dict[str, Any]:
        """Return a row as lookups show it: by default its fields as they are stored."""
        fields = self.to_fields(self.rows[key])
        return dict(zip(self.spec.fields, (fields,) if self.spec.single else fields, strict=True))

    def fork(self, journal: Journal) -> RowsState:
        """Return a copy, in which nothing changes when this one does.

        Args:
            journal: takes what is changed in it.
        """
        other = copy.copy(self)
        other.journal, other.changed = journal, set(self.changed)
        if _IMMUTABLE.issuperset(map(type, self.rows.values())):
            other.rows = dict(self.rows)
        else:
            rows = map(self.copy_row, self.rows.values())
            other.rows = dict(zip(self.rows, rows, strict=True))
        return other

    def copy_row(self, row: Any) -> Any:
        """Return a row for a fork, in which nothing changes when calls change this one in place.

        By default a dict is copied, also within tuples and other objects. What is only replaced
        may be returned as it is.
        """
        return _copied(row)

    def stored(self, key: Any) -> Any:
        """Return a row as a table has it, `ABSENT` for none."""
        return self.to_fields(self.rows[key]) if key in self.rows else ABSENT

    def restore(self, key: Any, stored: Any) -> None:
        """Add a row that `stored` returned; one that is there is combined with it."""
        row = self.from_fields(stored)
        self.rows[key] = self.combine(self.rows[key], row) if key in self.rows else row
        self.changed.add(key)

    def restore_all(self, keys: Sequence[Any], stored: Sequence[Any]) -> None:
        """Add rows that `stored` returned, as `restore` does."""
        for key, one in zip(keys, stored, strict=True):
            self.restore(key, one)

    def __len__(self) -> int:
        return len(self.rows)


class StateElement:
    """State that a stateful class keeps by key: the base of `Map`, `Value`, `Array` and `Matrix`.

    A subclass declares what its methods do, so that calls go to the rows that they access. It is
    used as the built-in ones are, `Partitioned(TopK(str, size=10), key="user")`.

    Args:
        key: the type of the keys: `int` (64 bits) or `str`.
        fields: the type of each stored field: `int` (64 bits), `float`, `bool`, `str` or
            `bytes`.

    Attributes:
        state: the class of its rows in memory, a subclass of `RowsState`, with the methods.
        reads: names of methods and properties that only read: also `__getitem__` (`self.x[key]`),
            `__contains__` (`in`), `__iter__` and `__len__`.
        writes: names of those that may change a row: also `__setitem__`, `__delitem__`.
        without_key: the methods whose first argument is not the key. They see all rows of a
            partition.
        batches: by method of `writes`, the name of another one of `state`, which takes many of its
            calls at once: a list of keys, and a column for each other argument: a NumPy array of
            numbers, a list of str, an Arrow array of bytes. It changes rows by `put_all` and
            `remove_all`, and returns a list of answers, or None. It is used for methods of a
            stateful class that do no more than call the other one.
        keyed: its methods take a key. An element without has one row, with the key 0.
        brackets: what `self.x[...]` has, in order; one of them is "key".
        number_of_keys: the keys are 0, 1, ... below it; None for any.
        row_methods: those that return the row of a map, of which fields are set.
        instead: what to write in place of a method that is not for a `Partitioned` element.

    Raises:
        ProgramError: a type that is not supported, or a field that cannot be called so.

    Example:
        >>> from vertexsdk import Partitioned, RowsState, Stateful
        >>> class NewestState(RowsState):
        ...     def add(self, key, text):
        ...         self.put(key, (*self.row_of(key, ()), text)[-self.element.size :])
        ...     def newest(self, key):
        ...         return list(self.row_of(key, ()))
        ...     def to_fields(self, row):
        ...         return "\\n".join(row)
        ...     def from_fields(self, fields):
        ...         return tuple(fields.split("\\n"))
        ...     def combine(self, one, other):
        ...         return (one + other)[-self.element.size :]
        >>> class Newest(StateElement):
        ...     state, reads, writes = NewestState, ("newest",), ("add",)
        ...     def __init__(self, key, size):
        ...         super().__init__(key, lines=str)
        ...         self.size = size
        >>> class Logs(Stateful):
        ...     lines = Partitioned(Newest(str, size=2), key="host")
        ...     def log(self, host: str, line: str) -> list:
        ...         self.lines.add(host, line)
        ...         return self.lines.newest(host)
        >>> logs = Logs()
        >>> [logs.log("a", line) for line in ("x", "y", "z")][-1]
        ['y', 'z']
        >>> Logs.lines
        Partitioned(Newest(str, size=2))
    """

    state: ClassVar[type[RowsState]]
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    without_key: Sequence[str] = ()
    batches: Mapping[str, str] = MappingProxyType({})
    keyed: ClassVar[bool] = True
    brackets: Sequence[str] = ("key",)
    number_of_keys: int | None = None
    row_methods: Sequence[str] = ()
    instead: Mapping[str, str] = MappingProxyType({})

    def __init__(self, key: type, /, **fields: type) -> None:
        of = type(self).__name__
        self.key = kind_of_type(key, ("int", "str"), f"{of}: a key of type")
        for name in fields:
            if name in _TAKEN or name.startswith("_"):
                raise ProgramError(f"{of}: a field cannot be called {name!r}; rename it")
        self.fields = {
            name: kind_of_type(kind, tuple(KINDS), f"{of}: a value of type")
            for name, kind in fields.items()
        }
        self.single = len(fields) == 1

    def __repr__(self) -> str:
        options = [
            f"{name}={value!r}" for name, value in vars(self).items() if name not in _DECLARED
        ]
        return f"{type(self).__name__}({', '.join([self.key] * self.keyed + options)})"

    def check(self) -> None:
        """Refuse an element that is not declared as it has to be.

        Raises:
            ProgramError: says what is missing.
        """
        of, state = type(self).__name__, getattr(self, "state", None)
        if not (isinstance(state, type) and issubclass(state, RowsState)):
            raise ProgramError(f"{of}: give the class state = ..., a subclass of RowsState")
        if not getattr(self, "fields", None):
            raise ProgramError(
                f"{of}: give its fields, as super().__init__(key, total=int) in __init__"
            )
        for names in (self.reads, self.writes, self.without_key):
            if isinstance(names, str):
                raise ProgramError(f"{of}: {names!r} is a str; give a tuple of names, ({names!r},)")
        for name in (*self.reads, *self.writes, *self.batches.values()):
            if not hasattr(state.view or state, name):
                raise ProgramError(
                    f"{of} declares {name}, which {state.__name__} does not have: define it there"
                )
        for name in set(self.without_key) - {*self.reads, *self.writes}:
            raise ProgramError(f"{of}: {name} is in without_key alone: add it to reads or writes")
        for name in set(self.batches) - ({*self.writes} - {*self.without_key}):
            raise ProgramError(f"{of}: {name} is in batches and takes no key in writes: remove it")


_DECLARED = {"key", "fields", "single", *StateElement.__annotations__}


def kind_of_type(declared: object, allowed: Collection[str], what: str) -> str:
    """Return the name of a type, of `KINDS`.

    Args:
        declared: the type.
        allowed: the names of those that are supported.
        what: begins the error.

    Raises:
        ProgramError: it is not one of them.
    """
    for kind in allowed:
        if declared is KINDS[kind]:
            return kind
    shown = getattr(declared, "__name__", None) or excerpt(declared)
    raise ProgramError(f"{what} {shown} is not supported: use {', '.join(allowed)}")


def state_in_memory(spec: TableSpec, journal: Journal) -> RowsState:
    """Return an empty state element."""
    return spec.element.state(spec, journal)  # type: ignore[no-any-return]


def as_seen(spec: TableSpec, rows: Any) -> Any:
    """Return what a method sees as a state element."""
    view = spec.element.state.view
    return rows if view is None else view(rows)


class Partial:
    """A value for each partition, which `gather_all` returns as a list.

    Args:
        values: the values of the partitions, in order.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = list(values)


class AllInstances:
    """A state element on all partitions, for one expression: of a plain object, its only one.

    Args:
        state: the state element.
    """

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._state, name)
        if not callable(member):
            return Partial([settled(member)])
        return lambda *args, **kwargs: Partial([settled(member(*args, **kwargs))])

    def __getitem__(self, key: Any) -> Partial:
        return Partial([settled(self._state[key])])


def on_all(element: Any) -> Any:
    """Evaluate one expression on all partitions of a state element.

    Args:
        element: `self.x`, a state element of the class.

    Returns:
        What has the methods of the state element. The value of the expression is a partial one,
        which `gather_all` makes a list of.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful
        >>> class Scores(Stateful):
        ...     scores = Partitioned(Map(str, int), key="player")
        ...     def score(self, player: str, points: int) -> None:
        ...         self.scores[player] += points
        ...     def best(self) -> int:
        ...         parts = gather_all(on_all(self.scores).values())
        ...         return max(max(part, default=0) for part in parts)
        >>> scores = Scores()
        >>> scores.score("a", 5)
        >>> scores.best()
        5
    """
    return AllInstances(element)


def gather_all(partial: Partial) -> list[Any]:
    """Return the values of all partitions, in their order, when all of them are there.

    Args:
        partial: the value of an `on_all` expression.

    Returns:
        A value for each partition.

    Raises:
        InputError: it is another value.

    Example:
        >>> gather_all(Partial([1, 2]))
        [1, 2]
    """
    if not isinstance(partial, Partial):
        raise InputError(f"gather_all({excerpt(partial)}): give the value of on_all(self.x)...")
    return list(partial._values)


def settled(value: Any) -> Any:
    """Return a value that does not change with the state: rows are copied, iterators are lists."""
    if isinstance(value, tuple):
        return getattr(value, "_make", tuple)(map(settled, value))
    if isinstance(value, list) or (hasattr(value, "__next__") and hasattr(value, "__iter__")):
        return list(map(settled, value))
    return answered(value)
