"""The objects that actions of triggers use: rows, tables to write to, and accumulators.

Nothing is changed while an action runs: what it writes is a list of operations, which become
visible together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NoReturn, TypeAlias

from vertexsdk.errors import InputError, excerpt
from vertexsdk.program.keyed import ABSENT, CONVERTERS, KINDS
from vertexsdk.program.table_columns import Column, FamilyColumn, ListColumn, mismatch, to_text
from vertexsdk.program.trigger_program import (
    LIKE_NUMBERS,
    Accumulator,
    TableElement,
    TableRows,
    TriggerProgram,
    direct_method,
    key_text,
)


class What(IntEnum):
    """The kinds of operations on the row of a key."""

    SET = 0  # a column
    ADD = 1  # to a column
    SET_CELL = 2  # of a family
    DROP_CELL = 3  # of a family
    INSERT = 4  # the row, if it is not there
    DELETE = 5  # the row
    PUT = 6  # a cell of an accumulator
    DISCARD = 7  # a cell of an accumulator
    REPEAT = 8  # the accumulation of a row
    ACTIVATE = 9  # the trigger at the place that is the target, for rows of which a filter holds


# One write of an action: the place of the table among those of the program, the key of the row,
# what to do, the place of the column (of a family, with the name of the cell; of an accumulator,
# the column), and the operand.
Operation: TypeAlias = tuple[int, Any, int, Any, Any]


class Writer:
    """Takes the writes of the action that runs.

    Attributes:
        operations: in the order of the action, but that additions to one column are one, and that
            of what is done to a cell of an accumulator the last is in the place of the first.
        refuses: what runs and may not write, as "when="; "" while an action runs.
        adds: an action of a table runs, whose additions may be merged with those of others.
        puts: it has written cells that are merged with those of others.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.refuses, self.adds, self.puts = "", False, False
        self._sums: dict[tuple[int, Any, int], int] = {}
        self._cells: dict[tuple[int, Any, Any], int] = {}

    def take(self) -> list[Operation]:
        """Return the writes of an action that has ended."""
        self.adds = self.puts = False
        operations, self.operations = self.operations, []
        self._sums.clear()
        self._cells.clear()
        return operations

    def write(self, target: int, key: Any, what: int, place: Any = None, value: Any = None) -> None:
        """Take one write."""
        if self.refuses:
            self._refuse()
        if self._sums:
            self._sums.clear()
        self.operations.append((target, key, what, place, value))

    def write_cell(self, target: int, key: str, what: int, column: Any, value: Any = None) -> None:
        """Take what is done to a cell of an accumulator."""
        if self.refuses:
            self._refuse()
        at = self._cells.setdefault((target, key, column), len(self.operations))
        if at < len(self.operations):
            self.operations[at] = (target, key, what, column, value)
        else:
            self.operations.append((target, key, what, column, value))

    def add(self, target: int, key: Any, place: int, amount: Any) -> None:
        """Take an addition."""
        if self.refuses:
            self._refuse()
        cell = target, key, place
        at = self._sums.get(cell)
        if at is None:
            self._sums[cell] = len(self.operations)
            self.operations.append((target, key, What.ADD, place, amount))
        else:
            self.operations[at] = (*cell[:2], What.ADD, place, self.operations[at][4] + amount)

    def _refuse(self) -> NoReturn:
        raise InputError(
            f"{self.refuses} writes to a table or an accumulator: only the trigger may"
        )


class TableView:
    """A table as actions see it: `self.words`.

    Args:
        target: its place among the tables of the program.
        name: name of the table.
        key_name: name of its first column.
        element: its columns.
        writer: takes what is written.
        rows: to be read, where every partition has all of them.

    Attributes:
        sums: for each column, what is added to it in a round, by key; None where the order of
            writes is kept.
    """

    def __init__(
        self, target: int, name: str, key_name: str, element: TableElement, writer: Writer,
        rows: TableRows | None,
    ) -> None:  # fmt: skip
        self.target, self.name, self.key_name = target, name, key_name
        self.element, self.writer, self.rows = element, writer, rows
        self.places = {column.name: k for k, column in enumerate(element.columns)}
        self._version, self._computed = -1, dict[int | None, Any]()
        self.columns, self.default = element.columns, element.default
        self.has_lists = any(isinstance(column, ListColumn) for column in element.columns)
        self.sums: list[dict[Any, int] | None] = [None] * len(element.columns)
        self.convert_key = to_text if element.key == "str" else CONVERTERS["int"]
        self._key_class = KINDS[element.key]
        self._is_plain = _is_plain_str if element.key == "str" else _is_plain_int
        columns = list(enumerate(element.columns))
        attributes = {key_name: property(_key_of), **{c.name: _reader(k, c) for k, c in columns}}
        self.row_class = type("Row", (Row,), {"__slots__": (), **attributes})
        self.old_row_class = type("OldRow", (OldRow,), {"__slots__": (), **attributes})
        attributes = {key_name: property(_key_of), **{c.name: _writer(k, c) for k, c in columns}}
        self.writer_class = type("RowWriter", (RowWriter,), {"__slots__": (), **attributes})

    def __getitem__(self, key: Any) -> Any:
        if key.__class__ is not self._key_class or not self._is_plain(key):
            key = self.convert_key(key)
        if self.rows is None:
            return self.writer_class(self, key)
        return self.row_class(self, key, self.rows.rows.get(key, self.default))

    def __setitem__(self, key: Any, value: Any) -> None:
        columns = ", ".join(self.places)
        raise InputError(f"{self.name}[key] has the columns {columns}: set them one by one")

    def __delitem__(self, key: Any) -> None:
        self.writer.write(self.target, self.convert_key(key), What.DELETE)

    def add(self, key: Any) -> None:
        """Insert a row, if it is not there."""
        self.writer.write(self.target, self.convert_key(key), What.INSERT)

    def discard(self, key: Any) -> None:
        """Delete a row, if it is there."""
        del self[key]

    def _readable(self) -> TableRows:
        if self.rows is None:
            raise InputError(
                f"{self.name} cannot be read here: its rows are on other processors; declare it "
                f"with broadcast=True, or read the row that a trigger of {self.name} is given"
            )
        return self.rows

    def __iter__(self) -> Iterator[Row]:
        rows = self._readable().rows
        return iter([self.row_class(self, key, rows[key]) for key in self._of_all(None)])

    def keys(self) -> list[Any]:
        """Return the keys of all rows, in their order."""
        return list(self._of_all(None))

    def values(self, column: str) -> Any:
        """Return the values of a column in all rows, in the order of their keys.

        They are the same object until a row changes, and cannot be changed in place.

        Args:
            column: its name.

        Returns:
            For numbers an array (rows,), for vectors an array (rows, size), else a tuple.
        """
        return self._of_all(self.place(column))

    def _of_all(self, place: int | None) -> Any:
        """Return the keys, or the values of a column; computed once until rows change."""
        state = self._readable()
        if self._version != state.version:
            self._version, self._computed = state.version, {}
        if place not in self._computed:
            if place is None:
                self._computed[None] = sorted(state.rows)
            else:
                keys, rows = self._of_all(None), state.rows
                self._computed[place] = self.columns[place].stack([rows[k][place] for k in keys])
        return self._computed[place]

    def __len__(self) -> int:
        return len(self._readable())

    def __contains__(self, key: Any) -> bool:
        return self.convert_key(key) in self._readable().rows

    def exists(self, row: tuple[Any, ...]) -> bool:
        """Return whether a row is there: it was inserted, or a column is not its default."""
        return bool(row[-2]) or bool(row[:-2] != self.default[:-2])

    def differ(self, one: tuple[Any, ...], other: tuple[Any, ...], places: Iterable[int]) -> bool:
        """Return whether two rows differ in some columns, or one of them is there."""
        for k in places:
            if one[k] is not other[k] and one[k] != other[k]:
                return True
        return self.exists(one) != self.exists(other)

    def place(self, name: str) -> int:
        """Return the place of a column.

        Raises:
            AttributeError: the column does not exist.
        """
        place = self.places.get(name)
        if place is None:
            known = ", ".join([self.key_name, *self.places])
            raise AttributeError(f"{self.name} has no column {name!r}; it has {known}")
        return place

    def set(self, key: Any, name: str, value: Any) -> tuple[int, Any]:
        """Write a value to a column; return its place and what is kept.

        Raises:
            InputError: the value is of another type.
        """
        if name == self.key_name:
            raise InputError(f"{self.name}.{name} is the key of the row: write to another row")
        place = self.place(name)
        column = self.columns[place]
        try:
            value = column.convert(value)
        except InputError as error:
            raise mismatch(column, error) from None
        self.writer.write(self.target, key, What.SET, place, value)
        return place, value

    def direct_methods(self) -> dict[str, Callable[..., None]]:
        """Return the methods that write to columns, by what `direct_method` calls them."""
        methods: dict[str, Callable[..., None]] = {}
        for place, column in enumerate(self.columns):
            methods[direct_method("set", self.name, column.name)] = self._setter(place, column)
            if column.__class__ is Column and column.kind == "int":
                for kind, adder in zip(("add", "subtract"), self._adders(place), strict=True):
                    methods[direct_method(kind, self.name, column.name)] = adder
        return methods

    def _setter(self, place: int, column: Column) -> Callable[..., None]:
        writer, convert, key_class = self.writer, column.convert, self._key_class
        target, name, is_plain = self.target, column.name, self._is_plain

        def set_column(value: Any, key: Any) -> None:
            """Do `self.table[key].column = value`."""
            if key.__class__ is not key_class or not is_plain(key):
                key = self.convert_key(key)
            if value.__class__ is Increment:
                setattr(self[key], name, value)
                return
            try:
                value = convert(value)
            except InputError as error:
                raise mismatch(column, error) from None
            writer.write(target, key, What.SET, place, value)

        return set_column

    def _adders(self, place: int) -> tuple[Callable[..., None], Callable[..., None]]:
        writer, key_class, all_sums = self.writer, self._key_class, self.sums
        is_plain = self._is_plain

        def add(key: Any, amount: Any) -> None:
            """Do `self.table[key].column += amount`."""
            sums = all_sums[place]
            if (
                sums is None or not writer.adds or amount.__class__ is not int
                or key.__class__ is not key_class or not is_plain(key)
            ):  # fmt: skip
                row = self.writer_class(self, self.convert_key(key))
                column = Increment(row, place)
                column += amount
                setattr(row, self.columns[place].name, column)
            else:
                sums[key] += amount

        def subtract(key: Any, amount: Any) -> None:
            """Do `self.table[key].column -= amount`."""
            sums = all_sums[place]
            if (
                sums is None or not writer.adds or amount.__class__ is not int
                or key.__class__ is not key_class or not is_plain(key)
            ):  # fmt: skip
                row = self.writer_class(self, self.convert_key(key))
                column = Increment(row, place)
                column -= amount
                setattr(row, self.columns[place].name, column)
            else:
                sums[key] -= amount

        return add, subtract


# Whether a str, or an int, needs no conversion. Others than ASCII may not be Unicode text.
_is_plain_str: Callable[[Any], bool] = str.isascii
_is_plain_int: Callable[[Any], bool] = range(-(1 << 63), 1 << 63).__contains__


def _is_plain_column(column: Any) -> bool:
    """Return whether a column of an accumulator needs no conversion."""
    if column.__class__ is str:
        return _is_plain_str(column)
    return column.__class__ is int and _is_plain_int(column)


def _key_of(row: Any) -> Any:
    return row._data[1]


def _reader(place: int, column: Column) -> property:
    """Return the attribute that reads a column."""
    if column.__class__ is Column:
        return property(lambda row: row._data[2][place])

    def read(row: Any) -> Any:
        shown = row._data[3]
        return row._read(place) if shown is None or place not in shown else shown[place]

    return property(read)


def _writer(place: int, column: Column) -> property:
    """Return the attribute by which numbers are added to a column, or cells of a family set."""
    if isinstance(column, FamilyColumn):
        return property(lambda row: CellsWriter(row._data[0], row._data[1], place))
    return property(lambda row: Increment(row, place))


class Row:
    """A row that a trigger reads: its columns are attributes; a row that is not there is false.

    Args:
        view: view of its table.
        key: key of the row.
        row: as `TableRows` has it.
    """

    __slots__ = ("_data",)
    _writable = True

    def __init__(self, view: TableView, key: Any, row: tuple[Any, ...]) -> None:
        _set_data(self, [view, key, row, None])

    def _read(self, place: int) -> Any:
        view, key, row, shown = self._data
        if shown is None:
            shown = self._data[3] = {}
        if place not in shown:
            column = view.columns[place]
            if isinstance(column, FamilyColumn) and self._writable:
                shown[place] = Cells(view, key, place, row[place])
            else:
                shown[place] = column.show(row[place])
        return shown[place]

    def __getattr__(self, name: str) -> Any:
        self._data[0].place(name)  # raises

    def __setattr__(self, name: str, value: Any) -> None:
        view, key, row, shown = self._data
        if not self._writable:
            raise InputError(f"{name} of the old row cannot be set: set it of the row itself")
        place, kept = view.set(key, name, value)
        self._data[2] = (*row[:place], kept, *row[place + 1 :])
        if shown:
            shown.pop(place, None)

    def __bool__(self) -> bool:
        there: bool = self._data[0].exists(self._data[2])
        return there

    def __repr__(self) -> str:
        view, key, row, _ = self._data
        values = {view.key_name: key} | {
            c.name: c.show(v) for c, v in zip(view.columns, row, strict=False)
        }
        return f"Row({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    def _check_lists(self) -> None:
        """Refuse a list that was changed in place, as that has no effect."""
        view, _, row, shown = self._data
        for place, value in (shown or {}).items():
            column = view.columns[place]
            if isinstance(column, ListColumn) and tuple(value) != row[place]:
                name = f"{view.name}.{column.name}"
                raise InputError(
                    f"{name} was changed in place, which changes nothing: set it, as "
                    f"row.{column.name} = [*row.{column.name}, item]"
                )


_set_data = Row.__dict__["_data"].__set__


class OldRow(Row):
    """The row as its trigger last saw it."""

    __slots__ = ()
    _writable = False


class Cells(Mapping[Any, Any]):
    """The cells of a family in a row that a trigger reads.

    Args:
        view: view of the table.
        key: key of the row.
        place: place of the family.
        cells: as they are.
    """

    def __init__(self, view: TableView, key: Any, place: int, cells: Mapping[Any, Any]) -> None:
        self._cells, self._writer = dict(cells), CellsWriter(view, key, place)

    def __getitem__(self, name: Any) -> Any:
        return self._cells[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self._cells))

    def __len__(self) -> int:
        return len(self._cells)

    def __setitem__(self, name: Any, value: Any) -> None:
        self._cells[name] = self._writer.set(name, value)

    def discard(self, name: Any) -> None:
        """Remove a cell, if it is there."""
        self._writer.discard(name)
        self._cells.pop(name, None)

    def __delitem__(self, name: Any) -> None:
        del self._cells[name]
        self._writer.discard(name)

    def __repr__(self) -> str:
        return repr(self._cells)


class CellsWriter:
    """The cells of a family in a row that may be on another processor: they can be set.

    Args:
        view: view of the table.
        key: key of the row.
        place: place of the family.
    """

    def __init__(self, view: TableView, key: Any, place: int) -> None:
        self._view, self._key, self._place = view, key, place
        column = view.columns[place]
        assert isinstance(column, FamilyColumn)
        self._column = column

    def set(self, name: Any, value: Any) -> Any:
        """Set a cell, and return its value."""
        try:
            name, value = self._column.convert_name(name), self._column.convert_cell(value)
        except InputError as error:
            raise mismatch(self._column, error) from None
        view = self._view
        view.writer.write(view.target, self._key, What.SET_CELL, (self._place, name), value)
        return value

    __setitem__ = set

    def discard(self, name: Any) -> None:
        """Remove a cell, if it is there."""
        name, view = self._column.convert_name(name), self._view
        view.writer.write(view.target, self._key, What.DROP_CELL, (self._place, name))

    __delitem__ = discard

    def refuse(self, *_: Any) -> NoReturn:
        """Refuse to read the cells."""
        raise _unreadable(self._view, self._key, f".{self._column.name}", "set its cells")

    def __getattr__(self, name: str) -> NoReturn:
        self.refuse()

    __bool__ = __eq__ = __ne__ = __contains__ = __getitem__ = __iter__ = __len__ = refuse
    __str__ = __format__ = refuse
    __hash__ = None  # type: ignore[assignment]


class RowWriter:
    """A row that may be on another processor: its columns can be set, and numbers added to them.

    Args:
        view: view of its table.
        key: key of the row.
    """

    __slots__ = ("_data",)

    def __init__(self, view: TableView, key: Any) -> None:
        _set_target(self, (view, key))

    def __getattr__(self, name: str) -> Any:
        self._data[0].place(name)  # raises

    def __setattr__(self, name: str, value: Any) -> None:
        view, key = self._data
        if value.__class__ is not Increment:
            view.set(key, name, value)
            return
        place, amount = value.place, value.amount
        other = value.row._data
        if other[0] is not view or other[1] != key or place != view.places.get(name):
            value.refuse()
        if not amount:
            return
        sums = view.sums[place]
        if sums is not None and view.writer.adds:
            sums[key] += amount
        else:
            view.writer.add(view.target, key, place, amount)

    def refuse(self, *_: Any) -> NoReturn:
        """Refuse to read the row."""
        view, key = self._data
        raise _unreadable(view, key, "", "set its columns")

    __bool__ = __eq__ = __ne__ = __str__ = __format__ = refuse
    __hash__ = None  # type: ignore[assignment]


def _unreadable(view: TableView, key: Any, column: str, write: str) -> InputError:
    """Return the error of a row that is read and may be on another processor.

    Args:
        view: view of its table.
        key: key of the row.
        column: its column, with a dot; "" for the row.
        write: how it is written to.
    """
    return InputError(
        f"{view.name}[{excerpt(key)}]{column} is read, and its row may be on another processor: "
        f"{write}, read it in a trigger of {view.name}, or declare the table with broadcast=True"
    )


_set_target = RowWriter.__dict__["_data"].__set__


class Increment:
    """A column of a row that may be on another processor, of which only `+=` and `-=` are known.

    Args:
        row: row of the table.
        place: place of the column.
        amount: to add.
    """

    __slots__ = ("amount", "place", "row")

    def __init__(self, row: RowWriter, place: int, amount: Any = 0) -> None:
        self.row, self.place, self.amount = row, place, amount

    def _checked(self, amount: Any) -> Any:
        """Return what is to be added."""
        column = self.row._data[0].columns[self.place]
        if column.__class__ is Column and column.kind == "int" and amount.__class__ is int:
            return amount
        if column.kind not in ("int", "float") or column.__class__ is not Column:
            raise InputError(f"{column.name} is {column.described}: only numbers can be added to")
        try:
            return column.convert(amount)
        except InputError as error:
            raise mismatch(column, error) from None

    def __iadd__(self, amount: Any) -> Increment:
        self.amount += self._checked(amount)
        return self

    def __isub__(self, amount: Any) -> Increment:
        self.amount -= self._checked(amount)
        return self

    def __add__(self, amount: Any) -> Increment:
        return Increment(self.row, self.place, self.amount + self._checked(amount))

    def __sub__(self, amount: Any) -> Increment:
        return Increment(self.row, self.place, self.amount - self._checked(amount))

    def refuse(self, *_: Any) -> NoReturn:
        """Refuse to read the column."""
        view, key = self.row._data
        raise _unreadable(
            view, key, f".{view.columns[self.place].name}", "write to it (=, += or -=)"
        )

    def __getattr__(self, name: str) -> NoReturn:
        self.refuse()

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = refuse
    __index__ = __iter__ = __len__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = refuse
    __str__ = __format__ = __getitem__ = __neg__ = __pow__ = __mod__ = __rsub__ = refuse
    __radd__ = __add__
    __hash__ = None  # type: ignore[assignment]


class Activation:
    """The function `activate` of an action.

    Args:
        program: has the triggers.
        application: whose action runs.
        writer: takes what is written.
    """

    def __init__(self, program: TriggerProgram, application: int, writer: Writer) -> None:
        self._program, self._application, self._writer = program, application, writer

    def __call__(self, trigger: str, where: str) -> None:
        """Have a trigger run for all rows."""
        t = self._program.trigger_named(trigger, self._application)
        self._program.row_filter(self._program.triggers[t], where)  # is there
        self._writer.write(t, "", What.ACTIVATE, where)


class AccumulatorView(dict[Any, "CellWriter"]):
    """An accumulator as actions see it: `self.incoming`.

    As a dict it has rows that were written to before, to find those of strings quickly.

    Args:
        target: the place of its table among those of the program.
        accumulator: what it is.
        writer: takes what is written.

    Attributes:
        cells: what is written in a round, by key and column; None where the order of writes is
            kept.
    """

    def __init__(self, target: int, accumulator: Accumulator, writer: Writer) -> None:
        super().__init__()
        self.target, self.accumulator, self.writer = target, accumulator, writer
        self.cells: dict[str, dict[Any, Any]] | None = None

    def __missing__(self, key: Any) -> CellWriter:
        row = CellWriter(self, key_text(key))
        if key.__class__ is str:
            if super().__len__() >= _REMEMBERED:
                super().clear()
            super().__setitem__(key, row)
        return row

    def __setitem__(self, key: Any, value: Any) -> None:
        name = self.accumulator.name
        raise InputError(f"{name}[{excerpt(key)}] has columns: set one, as {name}[key][column]")

    def __delitem__(self, key: Any) -> None:
        name = self.accumulator.name
        raise InputError(
            f"{name}[{excerpt(key)}] cannot be deleted, as others may have cells in it: remove "
            f"your own, as {name}[key].discard(column)"
        )

    def refuse(self, *_: Any) -> NoReturn:
        """Refuse to read the rows."""
        name = self.accumulator.name
        raise InputError(
            f"{name} is read, and its rows may be on other processors: what {name} comes to is the "
            "argument of its method"
        )

    __bool__ = __contains__ = __iter__ = __len__ = __reversed__ = __or__ = __ior__ = refuse
    __eq__ = __ne__ = __ror__ = refuse
    get = keys = values = items = pop = popitem = refuse
    setdefault = update = clear = copy = refuse  # type: ignore[assignment]
    __hash__ = None

    def __repr__(self) -> str:
        return f"<accumulator {self.accumulator.name}>"

    def convert(self, value: Any) -> Any:
        """Return the value of a cell as it is kept.

        Raises:
            InputError: it is of another type.
        """
        try:
            return self.accumulator.value.convert(value)
        except InputError as error:
            raise InputError(f"{self.accumulator.name}: {error}") from None

    def direct_methods(self) -> dict[str, Callable[..., None]]:
        """Return the methods that write to cells, by what `direct_method` calls them."""
        writer, column_of_values = self.writer, self.accumulator.value
        is_float = column_of_values.__class__ is Column and column_of_values.kind == "float"

        def put(value: Any, key: Any, column: Any) -> None:
            """Do `self.accumulator[key][column] = value`."""
            if not is_float or value.__class__ is not float or value != value:
                value = self.convert(value)
            cells = self.cells
            if cells is None or writer.refuses or not _is_plain_column(column):
                self.write(key_text(key), column, value)
                return
            if key.__class__ is not str or key[:1] in LIKE_NUMBERS or not key.isascii():
                key = key_text(key)
            row = cells.get(key)
            if row is None:
                row = cells[key] = {}
            row[column] = value
            writer.puts = True

        def discard(key: Any, column: Any) -> None:
            """Do `self.accumulator[key].discard(column)`."""
            if key.__class__ is not str or key[:1] in LIKE_NUMBERS or not key.isascii():
                key = key_text(key)
            cells = self.cells
            if cells is None or writer.refuses or not _is_plain_column(column):
                self.write(key, column, ABSENT)
                return
            row = cells.get(key)
            if row is None:
                row = cells[key] = {}
            row[column] = ABSENT
            writer.puts = True

        name = self.accumulator.name
        return {direct_method("put", name): put, direct_method("discard", name): discard}

    def write(self, key: str, column: Any, value: Any) -> None:
        """Set a cell, or remove it where the value is `ABSENT`."""
        if not _is_plain_column(column):
            column = to_text(column) if isinstance(column, str) else CONVERTERS["int"](column)
        if self.cells is None or self.writer.refuses:
            what = What.DISCARD if value is ABSENT else What.PUT
            value = None if value is ABSENT else value
            self.writer.write_cell(self.target, key, what, column, value)
            return
        self.cells.setdefault(key, {})[column] = value
        self.writer.puts = True


class CellWriter:
    """A row of an accumulator, whose cells can be set and discarded."""

    __slots__ = ("_key", "_view")

    def __init__(self, view: AccumulatorView, key: str) -> None:
        self._view, self._key = view, key

    def __setitem__(self, column: Any, value: Any) -> None:
        self._view.write(self._key, column, self._view.convert(value))

    def discard(self, column: Any) -> None:
        """Remove a cell, if it is there."""
        self._view.write(self._key, column, ABSENT)

    __delitem__ = discard

    def __getitem__(self, column: Any) -> Any:
        self._refuse(f"[{excerpt(column)}]")

    def _refuse(self, column: str) -> NoReturn:
        name = self._view.accumulator.name
        raise InputError(
            f"{name}[key]{column} is read, and it may be on another processor: what {name} comes "
            "to is the argument of its method"
        )

    def refuse(self, *_: Any) -> NoReturn:
        """Refuse to read the cells."""
        self._refuse("")

    __bool__ = __eq__ = __ne__ = __contains__ = __iter__ = __len__ = __str__ = __format__ = refuse
    __hash__ = None  # type: ignore[assignment]


_REMEMBERED = 1 << 16  # rows of an accumulator
