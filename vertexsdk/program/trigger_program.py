"""A trigger program: the tables that applications share, and what runs when their cells change.

It is a keyed program: an upsert or a deletion of a row is a call of a method of its table. What
triggers last saw and what accumulators have are tables of their own, so that snapshots, the log,
forks and other numbers of partitions are those of keyed state.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from vertexsdk.errors import InputError
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.keyed import (
    ABSENT,
    CONVERTERS,
    KeyedMethod,
    KeyedProgram,
    Parameter,
    TableSpec,
    TaskElement,
)
from vertexsdk.program.keyed_state import Journal, RowsState, StateElement, field_name
from vertexsdk.program.table_columns import Column, ColumnParameter, VectorColumn

Version: TypeAlias = tuple[int, int]  # wave and round
Total: TypeAlias = Callable[[Mapping[Any, Any]], Any]  # of the cells of a row
DEFAULT_ROUNDS: Final = 1000


class TableRows(RowsState):
    """The rows of a table: tuples of the values of all columns, and two more.

    Of these the first tells whether the row was inserted and not only written to, the second which
    accumulators have set which of its columns: a dict of the place of a column to the name and the
    key of the accumulator, or None.
    """

    element: TableElement

    def to_fields(self, row: Any) -> Any:
        """See `RowsState`."""
        columns = self.element.columns
        stored = [c.store(value) for c, value in zip(columns, row, strict=False)]
        return (*stored, row[-2], json.dumps(sorted((row[-1] or {}).items())))

    def from_fields(self, fields: Any) -> Any:
        """See `RowsState`."""
        columns = self.element.columns
        values = [c.restore(stored) for c, stored in zip(columns, fields, strict=False)]
        writers = {place: tuple(writer) for place, writer in json.loads(fields[-1])}
        return (*values, bool(fields[-2]), writers or None)

    def describe(self, key: Any) -> dict[str, Any]:
        """Return the values of the columns by name."""
        columns = self.element.columns
        return {c.name: c.show(v) for c, v in zip(columns, self.rows[key], strict=False)}


class TableElement(StateElement):
    """The rows of a table, or what a trigger last saw of them.

    Args:
        key: the type of the keys, "int" or "str".
        columns: the others.

    Example:
        >>> TableElement("str", [Column("count", "int", 3)]).default
        (3, False, None)
    """

    state = TableRows

    def __init__(self, key: str, columns: Sequence[Column]) -> None:
        kinds = {"int": int, "str": str, "float": float, "bool": bool, "bytes": bytes}
        fields = {field_name(c.name): kinds[c.stored_kind] for c in columns}
        super().__init__(kinds[key], **fields, inserted_=bool, writers_=str)
        self.columns = tuple(columns)
        self.default = (*(c.default for c in columns), False, None)


class CellRows(RowsState):
    """The cells of an accumulator: a dict of column to value for each row."""

    element: CellElement

    def to_fields(self, row: Any) -> str:
        """Return the cells as JSON."""
        value = self.element.value
        vector = isinstance(value, VectorColumn)
        cells = row.items()
        return json.dumps([(c, value.show(v).tolist() if vector else v) for c, v in cells])

    def from_fields(self, fields: Any) -> Any:
        """Return the cells of JSON."""
        convert = self.element.value.convert
        return {column: convert(cell) for column, cell in json.loads(fields)}

    def fork(self, journal: Journal) -> RowsState:
        """See `RowsState`; cells are changed where they are."""
        other = super().fork(journal)
        other.rows = {key: dict(cells) for key, cells in self.rows.items()}
        return other


class CellElement(StateElement):
    """The cells of an accumulator, by row and column.

    Args:
        value: the type of the values.
    """

    state = CellRows

    def __init__(self, value: Column) -> None:
        super().__init__(str, cells=str)
        self.value = value


def key_text(key: Any) -> str:
    """Return the key of a row of an accumulator as it is stored: ints and strings are different.

    Raises:
        InputError: it is neither.

    >>> key_text(7), key_text("a"), key_text("7")
    ('7', 'a', '"7')
    """
    if isinstance(key, str):
        return '"' + key if key[:1] in _LIKE_NUMBERS else key
    return str(CONVERTERS["int"](key))


def key_of_text(text: str) -> Any:
    """Return the key that `key_text` returned the text of.

    >>> key_of_text("7"), key_of_text('"7')
    (7, '7')
    """
    if text[:1] == '"':
        return text[1:]
    return int(text) if text[:1] in _LIKE_NUMBERS and text else text


_LIKE_NUMBERS = ("", *'0123456789-"')


@dataclass(frozen=True)
class Trigger:
    """What runs when something changes.

    Attributes:
        application: the place of its class in the program.
        name: of the method.
        function: the method.
        file, line: where it is defined.
    """

    application: int
    name: str
    function: Callable[..., Any]
    file: str
    line: int


@dataclass(frozen=True)
class PlainTrigger(Trigger):
    """A trigger of a table.

    Attributes:
        table: its name.
        columns: the places of those that it watches.
        when: the filter; None where every change runs it.
        seen: the name of the table of what it last saw.
    """

    table: str
    columns: frozenset[int]
    when: Callable[..., Any] | None
    seen: str


@dataclass(frozen=True)
class Accumulator(Trigger):
    """A trigger of a table of partial results, which only it has.

    Attributes:
        table: the name of that.
        algebra: makes one value of the cells of a row.
        value: the column that cells are of.
        synchronous: it runs at the end of a round, with all partial results of the round.
    """

    table: str
    algebra: Algebra
    value: Column
    synchronous: bool

    def total(self, cells: Mapping[Any, Any]) -> Any:
        """Return the value of some cells; `ABSENT` where there are none and that has no value."""
        return self._total(cells)

    @cached_property
    def _total(self) -> Total:
        make = _TOTALS.get(self.algebra.kind, _combined)
        return make(self.algebra, self.value)


def _scalar_sum(algebra: Algebra, value: Column) -> Total:
    if isinstance(value, VectorColumn):
        return _vector_sum(algebra, value)
    if value.kind == "int":
        return lambda cells: algebra.combined(sum(cells.values()), 0)
    return lambda cells: _exact_sum(cells.values())


def _exact_sum(values: Iterable[float]) -> float:
    """Return the sum of floats rounded once, so that it is the same in any order."""
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):  # of infinities
        return float(sum(values))


def _vectors(value: VectorColumn, cells: Mapping[Any, Any]) -> Any:
    """Return the vectors of cells, one below the other, in the order of their columns."""
    import numpy as np

    ordered = sorted(cells, key=lambda column: (isinstance(column, str), column))
    stacked = b"".join([cells[column] for column in ordered])
    return np.frombuffer(stacked, value.show(value.default).dtype).reshape(-1, value.size)


def _vector_sum(algebra: Algebra, value: VectorColumn) -> Total:
    return lambda cells: _vectors(value, cells).sum(axis=0)


def _mean(algebra: Algebra, value: Column) -> Total:
    if isinstance(value, VectorColumn):
        vectors = value
        return lambda cells: _vectors(vectors, cells).mean(axis=0) if cells else ABSENT
    return lambda cells: _exact_sum(cells.values()) / len(cells) if cells else ABSENT


def _latest(algebra: Algebra, value: Column) -> Total:
    return lambda cells: {column: value.show(cell) for column, cell in cells.items()}


def _combined(algebra: Algebra, value: Column) -> Total:
    def total(cells: Mapping[Any, Any]) -> Any:
        result: Any = value.show(value.convert(algebra.identity))
        for column in sorted(cells, key=lambda c: (isinstance(c, str), c)):
            result = algebra.combined(result, value.show(cells[column]))
        return result

    return total


_TOTALS: dict[str, Callable[[Algebra, Any], Total]] = {
    "sum": _scalar_sum, "mean": _mean, "latest": _latest,
}  # fmt: skip


@dataclass(frozen=True)
class Application:
    """A class of triggers.

    Attributes:
        cls: the class.
        parameters: the value of each parameter, by name.
        tables: those that it names, by the names of its attributes.
    """

    cls: type
    parameters: Mapping[str, Any]
    tables: Sequence[str]


@dataclass(frozen=True)
class TableMethod:
    """What a method of a trigger program does to the rows of a table.

    Attributes:
        table: its name.
        deletes: it deletes rows; else it inserts or updates them.
    """

    table: str
    deletes: bool


@dataclass(frozen=True)
class TriggerProgram(KeyedProgram):
    """Applications on tables, ready to run.

    Attributes:
        applications: in the order in which they were given.
        triggers: plain ones and accumulators, of all applications; they run in this order.
        max_rounds: how many rounds may follow from one change.
        eager: run triggers a few at a time, without waiting for the end of a round.
        does: what each method does, in their order.
    """

    applications: Sequence[Application] = ()
    triggers: Sequence[Trigger] = ()
    max_rounds: int = DEFAULT_ROUNDS
    eager: bool = False
    does: Sequence[TableMethod] = field(default=())

    @property
    def classes(self) -> list[type]:
        """See `KeyedProgram`."""
        return [application.cls for application in self.applications]

    def method_of(self, table: str, *, deletes: bool) -> int:
        """Return the place of the method that writes to a table."""
        return list(self.does).index(TableMethod(table, deletes))


def table_methods(
    spec: TableSpec, key_name: str, file: str, line: int
) -> tuple[KeyedMethod, KeyedMethod]:
    """Return the methods that insert or update rows of a table, and delete them.

    The first parameter is the batch of a call: rows of one batch change together. The third one of
    an upsert has a bit for each column that is given.
    """
    element: TableElement = spec.element
    own = TaskElement(
        spec.name, "key", _never, 0, writes=True, alone=True, last=True, item=False, whole=False,
        line=line,
    )  # fmt: skip
    batch, key = Parameter(BATCH, "int", 0), Parameter(key_name, element.key)
    columns = [
        ColumnParameter(c.name, c.stored_kind, c.store(c.default), c) for c in element.columns
    ]
    return (
        KeyedMethod(
            f"upsert {spec.name}", (batch, key, Parameter(GIVEN, "int", 0), *columns), (own,),
            key_name, "", file, line,
        ),
        KeyedMethod(f"delete {spec.name}", (batch, key), (own,), key_name, "", file, line),
    )  # fmt: skip


BATCH, GIVEN = "batch_", "given_"


def _never(*_: Any) -> Any:
    raise InputError("a method of a table is run by its triggers")
