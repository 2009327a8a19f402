"""A trigger program: the tables that applications share, and what runs when their cells change.

It is a keyed program: an upsert or a deletion of a row is a call of a method of its table. What
triggers last saw and what accumulators have are tables of their own, so that snapshots, the log,
forks and other numbers of partitions are those of keyed state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from vertexsdk.errors import InputError
from vertexsdk.program.accumulations import accumulation
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.keyed import (
    ABSENT,
    CONVERTERS,
    KINDS,
    KeyedMethod,
    KeyedProgram,
    Parameter,
    TableSpec,
    TaskElement,
)
from vertexsdk.program.keyed_state import Journal, RowsState, StateElement, field_name
from vertexsdk.program.table_columns import Column, ColumnParameter, VectorColumn, to_text

Version: TypeAlias = tuple[int, int]  # wave and round
Schedule: TypeAlias = Literal["rounds", "eager", "every"]
DEFAULT_ROUNDS: Final = 1000
_FEW_CELLS = 32  # of which a total is made at once
_WORTH = 16  # cells that are added up in the time that one change takes


class TableRows(RowsState):
    """The rows of a table: tuples of the values of all columns, and two more.

    Of these the first tells whether the row was inserted and not only written to, the second which
    accumulators have set which of its columns: a dict of the place of a column (of a family, with
    the name of the cell) to the name and the key of the accumulator, or None.
    """

    element: TableElement
    version = 0  # another number after each change

    def touch(self, row: Any) -> None:
        """Count a change of a row."""
        self.version += 1

    def touch_all(self, rows: Sequence[Any]) -> None:
        """Count a change of several rows."""
        self.version += 1

    def to_fields(self, row: Any) -> Any:
        """Return the stored values of the columns, and the two more as a bool and JSON."""
        columns = self.element.columns
        stored = [c.store(value) for c, value in zip(columns, row, strict=False)]
        return (*stored, row[-2], json.dumps(sorted((row[-1] or {}).items(), key=str)))

    def from_fields(self, fields: Any) -> Any:
        """Return the row that `to_fields` took apart."""
        columns = self.element.columns
        values = [c.restore(stored) for c, stored in zip(columns, fields, strict=False)]
        writers = {
            tuple(place) if isinstance(place, list) else place: tuple(writer)
            for place, writer in json.loads(fields[-1])
        }
        return (*values, bool(fields[-2]), writers or None)

    def copy_row(self, row: Any) -> Any:
        """Return a row, all of which is replaced and not changed."""
        return row

    def describe(self, key: Any) -> dict[str, Any]:
        """Return the values of the columns by name."""
        columns = self.element.columns
        row = {c.name: c.show(v) for c, v in zip(columns, self.rows[key], strict=False)}
        return {n: dict(v) if isinstance(v, Mapping) else v for n, v in row.items()}


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
        fields = {field_name(c.name): KINDS[c.stored_kind] for c in columns}
        super().__init__(KINDS[key], **fields, inserted_=bool, writers_=str)
        self.columns = tuple(columns)
        self.default = (*(c.default for c in columns), False, None)


class RunningTotal(NamedTuple):
    """The last total of an accumulator's row, and the changes since then.

    Attributes:
        value: the total, as `Accumulation.begin` returns it.
        changes: the old and new value of each cell that changed since then.
    """

    value: list[Any]
    changes: list[tuple[Any, Any]]


class CellRows(RowsState):
    """The cells of an accumulator: a dict of column to value for each row.

    The total of a row is kept with the changes since then, where the algebra can take a value back:
    if they are few, the next total is made of them (`Incr`, section 5.2.5 of the Domino paper).
    """

    element: CellElement

    def __init__(self, spec: TableSpec, journal: Journal) -> None:
        super().__init__(spec, journal)
        self._running: dict[Any, RunningTotal] = {}

    def put_cell(self, key: Any, column: Any, value: Any) -> bool:
        """Set a cell; return whether it has another value now."""
        cells = self.rows.get(key)
        old = ABSENT if cells is None else cells.get(column, ABSENT)
        if old is value or old == value:
            return False
        running = self._running.get(key)
        if cells is None:
            self.note(self.rows, key, key)
            cells = self.rows[key] = {}
        self.note(cells, column, key)
        cells[column] = value
        self._changed_cell(key, running, old, value)
        return True

    def put_cells(self, written: Mapping[Any, Mapping[Any, Any]]) -> tuple[list[Any], int]:
        """Set and remove cells of many rows.

        Args:
            written: by key and column, the values; `ABSENT` removes a cell.

        Returns:
            The keys of the rows that have changed, and how many cells have.
        """
        rows, changed, count = self.rows, list[Any](), 0
        for key, values in written.items():
            cells = rows.get(key)
            if cells is None:
                cells = {c: v for c, v in values.items() if v is not ABSENT}
                if not cells:
                    continue
                self.note(rows, key, key)
                rows[key] = cells
                count += len(cells)
            else:
                columns, old_values = [], []
                for column, value in values.items():
                    old = cells.get(column, ABSENT)
                    if old is not value and old != value:
                        columns.append(column)
                        old_values.append(old)
                if not columns:
                    continue
                self.journal.note_cells(cells, columns, old_values, self, key)
                self.changed.add(key)
                count += len(columns)
                running = self._running.get(key)
                for column, old in zip(columns, old_values, strict=True):
                    value = values[column]
                    if value is ABSENT:
                        del cells[column]
                    else:
                        cells[column] = value
                    if running is not None:
                        running.changes.append((old, value))
                if not cells:
                    self.note(rows, key, key)
                    del rows[key]
            changed.append(key)
        return changed, count

    def discard_cell(self, key: Any, column: Any) -> bool:
        """Remove a cell; return whether it was there."""
        cells = self.rows.get(key)
        if cells is None or column not in cells:
            return False
        running = self._running.get(key)
        self.note(cells, column, key)
        old = cells.pop(column)
        if not cells:
            self.note(self.rows, key, key)
            del self.rows[key]
        self._changed_cell(key, running, old, ABSENT)
        return True

    def _changed_cell(self, key: Any, running: RunningTotal | None, old: Any, new: Any) -> None:
        if running is not None:
            running.changes.append((old, new))
            self._running[key] = running

    def total(self, key: Any) -> Any:
        """Return the value of a row's cells; `ABSENT` where it has none without cells."""
        how, cells = self.element.accumulation, self.rows.get(key, {})
        if not how.incremental or len(cells) < _FEW_CELLS:
            self._running.pop(key, None)
            return how.total(cells)
        running = self._running.get(key)
        if running is None or len(running.changes) * _WORTH > len(cells):
            running = self._running[key] = RunningTotal(how.begin(cells), [])
        for old, new in running.changes:
            how.change(running.value, old, new)
        running.changes.clear()
        return how.end(running.value, cells)

    def touch(self, row: Any) -> None:
        """Forget a row's total: a change is undone, or `_changed_cell` notes it after this."""
        self._running.pop(row, None)

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
        """Return a copy for a fork, without the totals."""
        other = super().fork(journal)
        assert isinstance(other, CellRows)
        other._running = {}
        return other

    def copy_row(self, row: Any) -> Any:
        """Return a copy of the cells of a row, which are changed in place."""
        return dict(row)


class CellElement(StateElement):
    """The cells of an accumulator, by row and column.

    Args:
        algebra: makes one value of the cells of a row.
        value: the type of the values.
    """

    state = CellRows

    def __init__(self, algebra: Algebra, value: Column) -> None:
        super().__init__(str, cells=str)
        self.value, self.accumulation = value, accumulation(algebra, value)


def key_text(key: Any) -> str:
    """Return the key of a row of an accumulator as it is stored: ints and strings are different.

    Raises:
        InputError: it is neither.

    >>> key_text(7), key_text("a"), key_text("7")
    ('7', 'a', '"7')
    """
    if isinstance(key, str):
        text = to_text(key)
        return '"' + text if text[:1] in LIKE_NUMBERS else text
    return str(CONVERTERS["int"](key))


def key_of_text(text: str) -> Any:
    """Return the key that `key_text` returned the text of.

    >>> key_of_text("7"), key_of_text('"7')
    (7, '7')
    """
    if text[:1] == '"':
        return text[1:]
    return int(text) if text[:1] in LIKE_NUMBERS and text else text


LIKE_NUMBERS = frozenset(("", *'0123456789-"'))


def direct_method(kind: str, table: str, column: str = "") -> str:
    """Return the name of the method of an application that makes one write.

    Args:
        kind: "add", "subtract" or "set", of a column of a table; "put" or "discard", of a cell of
            an accumulator.
        table: the name of the table or the accumulator.
        column: the name of the column of a table.

    >>> direct_method("add", "words", "count")
    'add words.count'
    """
    return f"{kind} {table}.{column}"


@dataclass(frozen=True)
class Trigger:
    """A method that runs when something changes.

    Attributes:
        application: the place of its class in the program.
        name: the method's name.
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
        reads: the places of the columns of the old row that it may read.
    """

    table: str
    columns: frozenset[int]
    when: Callable[..., Any] | None
    seen: str
    reads: frozenset[int]


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
    """The table and the effect of a method of a trigger program.

    Attributes:
        table: the name of the table that it writes to; "" for all that is activated.
        kind: "upsert" inserts or updates rows, "delete" deletes them, "activate" has a trigger run
            for all rows of its table.
    """

    table: str
    kind: Literal["upsert", "delete", "activate"]


@dataclass(frozen=True)
class TriggerProgram(KeyedProgram):
    """Applications on tables, ready to run.

    Attributes:
        applications: in the order of their names.
        triggers: plain ones and accumulators, of all applications; they run in this order.
        max_rounds: how many rounds may follow from one change.
        schedule: "rounds"; "eager", triggers run a few at a time, without waiting for the end of a
            round; "every", as that, and no event is merged with a later one.
        does: what each method does, in their order.
        combiners: by table and place of a column, what makes one value of two that are written to
            it in a round: the place of an application, and its method.
    """

    applications: Sequence[Application] = ()
    triggers: Sequence[Trigger] = ()
    max_rounds: int = DEFAULT_ROUNDS
    schedule: Schedule = "rounds"
    does: Sequence[TableMethod] = field(default=())
    combiners: Mapping[tuple[str, int], tuple[int, Callable[..., Any]]] = field(
        default_factory=dict
    )

    @cached_property
    def targets(self) -> Mapping[str, int]:
        """The place of each table, by name."""
        return {name: k for k, name in enumerate(self.tables)}

    @cached_property
    def everywhere(self) -> frozenset[int]:
        """The places of the tables of which every partition has all rows."""
        places = enumerate(self.tables.values())
        return frozenset(k for k, spec in places if spec.where == "everywhere")

    @cached_property
    def accumulators(self) -> Mapping[int, int]:
        """The place of each accumulator, by that of its table."""
        return {
            self.targets[trigger.table]: t
            for t, trigger in enumerate(self.triggers)
            if isinstance(trigger, Accumulator)
        }

    @cached_property
    def asynchronous(self) -> frozenset[int]:
        """The places of the tables of asynchronous accumulators."""
        return frozenset(
            self.targets[trigger.table]
            for trigger in self.triggers
            if isinstance(trigger, Accumulator) and not trigger.synchronous
        )

    @property
    def eager(self) -> bool:
        """True if triggers do not wait for the end of a round."""
        return self.schedule != "rounds"

    def schema(self) -> dict[str, dict[str, Any]]:
        """Return the state's schema; fields that are not columns of a user's table are internal."""
        fields = super().schema()
        seen = {t.seen for t in self.triggers if isinstance(t, PlainTrigger)}
        algebras = {t.table: t.algebra for t in self.triggers if isinstance(t, Accumulator)}
        for name, one in fields.items():
            if one["element"] in algebras:
                one["algebra"] = algebras[one["element"]].kind
            columns = name.endswith((".inserted_", ".writers_"))
            if columns or one["element"] in {*seen, *algebras}:
                one["internal"] = True
        return fields

    def full_name(self, trigger: Trigger) -> str:
        """Return the class and the name of a trigger, as "Rank.spread"."""
        return f"{self.applications[trigger.application].cls.__name__}.{trigger.name}"

    def trigger_named(self, name: str, application: int | None = None) -> int:
        """Return the place of a trigger.

        Args:
            name: the method's name, or `Class.method`.
            application: whose method it is, if it has no class; None for any one.

        Raises:
            InputError: no trigger of a table has this name, or several have.
        """
        plain = {t: one for t, one in enumerate(self.triggers) if isinstance(one, PlainTrigger)}
        if "." in name:
            places = [t for t, one in plain.items() if self.full_name(one) == name]
        else:
            places = [
                t for t, one in plain.items()
                if one.name == name and application in (None, one.application)
            ]  # fmt: skip
        if len(places) == 1:
            return places[0]
        known = ", ".join(map(self.full_name, plain.values()))
        why = "there are several: give one as Class.method" if places else "there is none"
        raise InputError(f"trigger {name!r}: {why}; the triggers of tables are {known}")

    def row_filter(self, trigger: Trigger, name: str) -> Callable[..., Any] | None:
        """Return the method that chooses the rows of an activation; None for all.

        Raises:
            InputError: no such method.
        """
        if not name:
            return None
        cls = self.applications[trigger.application].cls
        method = getattr(cls, name, None)
        if not callable(method):
            raise InputError(f"where={name!r}: {cls.__name__} has no such method")
        chosen: Callable[..., Any] = method
        return chosen

    @property
    def classes(self) -> list[type]:
        """The classes of the applications."""
        return [application.cls for application in self.applications]

    def method_of(self, table: str, kind: Literal["upsert", "delete", "activate"]) -> int:
        """Return the place of a method."""
        return list(self.does).index(TableMethod(table, kind))

    def parameters_of(self, method: int) -> tuple[Parameter, ...]:
        """Return the parameters of the method at a place."""
        return list(self.methods.values())[method].parameters


def table_methods(
    spec: TableSpec, key_name: str, file: str, line: int
) -> tuple[KeyedMethod, KeyedMethod]:
    """Return the methods that insert or update rows of a table, and delete them.

    The first parameter is the batch of a call: rows of one batch change together. The third one of
    an upsert has a bit for each column that is given.
    """
    element: TableElement = spec.element
    elements = (_task_element(spec.name, "key", line),)
    batch = Parameter(BATCH, "int", 0)
    key = ColumnParameter(key_name, element.key, ABSENT, Column(key_name, element.key, None))
    columns = [
        ColumnParameter(c.name, c.stored_kind, c.store(c.default), c) for c in element.columns
    ]
    return (
        KeyedMethod(
            f"upsert {spec.name}", (batch, key, Parameter(GIVEN, "int", 0), *columns), elements,
            key_name, "", file, line,
        ),
        KeyedMethod(f"delete {spec.name}", (batch, key), elements, key_name, "", file, line),
    )  # fmt: skip


def activate_method(table: str, file: str, line: int) -> KeyedMethod:
    """Return the method that has a trigger run for all rows.

    Args:
        table: any table, of which a task element has to be.
        file, line: where the first class is defined.
    """
    element = _task_element(table, "all", line)
    parameters = (
        Parameter(BATCH, "int", 0),
        Parameter("trigger", "str"),
        Parameter("where", "str"),
    )
    return KeyedMethod("activate", parameters, (element,), None, "", file, line)


BATCH, GIVEN = "batch_", "given_"


def _task_element(table: str, send: str, line: int) -> TaskElement:
    return TaskElement(
        table, send, _never, 0, writes=True, alone=True, last=True, item=False, whole=False,
        line=line,
    )  # fmt: skip


def _never(*_: Any) -> Any:
    raise InputError("a method of a table is run by its triggers")
