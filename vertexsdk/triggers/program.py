"""From classes of triggers to one trigger program."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, get_args

from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.program.keyed import KeyedMethod, TableSpec
from vertexsdk.program.table_columns import Column, FamilyColumn
from vertexsdk.program.trigger_program import (
    Accumulator,
    Application,
    CellElement,
    PlainTrigger,
    Schedule,
    TableElement,
    TableMethod,
    Trigger,
    TriggerProgram,
    activate_method,
    table_methods,
)
from vertexsdk.triggers._rewrite import Names, rewritten
from vertexsdk.triggers.table import MOST_COLUMNS, Table
from vertexsdk.triggers.triggers import (
    Accumulate,
    Combine,
    OnChange,
    Triggers,
    members_of,
    parameters_of,
    require_parameters,
)


class _SharedTable:
    """A table as all applications together declare it."""

    def __init__(self, name: str, first: Table, owner: str) -> None:
        self.name, self.key_name, self.key = name, first.key_name, first.key
        self.broadcast, self.owner = first.broadcast, owner
        self.columns: dict[str, Column] = {}

    def unite(self, table: Table, owner: str) -> None:
        """Add the columns that another application declares.

        Raises:
            ProgramError: they do not fit those that are there.
        """
        declared = (table.key_name, table.key, table.broadcast)
        if declared != (self.key_name, self.key, self.broadcast):
            raise ProgramError(
                f"{owner}.{self.name} and {self.owner}.{self.name} are one table, and differ in "
                "their first column or in broadcast=: declare both in the same way"
            )
        for name, column in table.columns.items():
            known = self.columns.setdefault(name, column)
            if known != column:
                raise ProgramError(
                    f"{owner}.{self.name} and {self.owner}.{self.name} are one table, and the "
                    f"column {name} is {_shown(column)} in one and {_shown(known)} in the other: "
                    "declare it in the same way, or call one of them otherwise"
                )
        if len(self.columns) > MOST_COLUMNS:
            raise ProgramError(
                f"{self.name} has {len(self.columns) + 1} columns in all applications, and "
                f"{MOST_COLUMNS + 1} are the most: use a Family for sparse ones"
            )


def _shown(column: Column) -> str:
    return f"{column.described}, by default {excerpt(column.show(column.default))}"


def trigger_program(applications: Any, *, max_rounds: int, schedule: Schedule) -> TriggerProgram:
    """Return the program of some applications.

    Args:
        applications: subclasses of `Triggers` or instances of them; one, or several.
        max_rounds: how many rounds may follow from one change.
        schedule: "rounds", "eager" or "every".

    Raises:
        InputError: they are something else, or an option is.
        ProgramError: they cannot run as written.
    """
    if isinstance(max_rounds, bool) or not isinstance(max_rounds, int) or max_rounds < 1:
        raise InputError(f"max_rounds is {excerpt(max_rounds)}; give a number from 1 on")
    if schedule not in get_args(Schedule):
        raise InputError(
            f"schedule is {excerpt(schedule)}; it must be 'rounds', 'eager' or 'every'"
        )
    given = list(applications) if isinstance(applications, list | tuple) else [applications]
    classes = [_application(one) for one in given]
    if not classes:
        raise InputError("TriggerLoop([]): give the classes of triggers to run")
    classes.sort(key=lambda pair: pair[0].__name__)  # so that their order is of no account
    names = [cls.__name__ for cls, _ in classes]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"there are several classes {name}: each runs once in a loop")
    shared = _shared_tables([cls for cls, _ in classes])
    if not shared:
        raise ProgramError(f"{names[0]} has no Table: declare one, as Table(url=str, text=str)")
    specs = {
        name: TableSpec(name, TableElement(table.key, list(table.columns.values())), _where(table))
        for name, table in shared.items()
    }
    triggers: list[Trigger] = []
    for k, (cls, _) in enumerate(classes):
        triggers += _triggers(k, cls, specs)
    for trigger in triggers:
        name = trigger.seen if isinstance(trigger, PlainTrigger) else _table_of(trigger)
        if name in specs:
            raise ProgramError(f"a table cannot be called {name!r}, as {trigger.name} has one")
        specs[name] = _own_spec(name, trigger, specs)
    file, line = _place(classes[0][0])
    methods: dict[str, KeyedMethod] = {}
    does: list[TableMethod] = []
    for name, table in shared.items():
        for method in table_methods(specs[name], table.key_name, file, line):
            methods[method.name] = method
            does.append(TableMethod(name, "delete" if len(does) % 2 else "upsert"))
    methods["activate"] = activate_method(next(iter(shared)), file, line)
    does.append(TableMethod("", "activate"))
    return TriggerProgram(
        "-".join(names), classes[0][0], specs, methods, compiled=False,
        applications=tuple(
            Application(cls, parameters, [n for n, m in members_of(cls) if isinstance(m, Table)])
            for cls, parameters in classes
        ),
        triggers=tuple(triggers), max_rounds=max_rounds, schedule=schedule,
        does=tuple(does), combiners=_combiners([cls for cls, _ in classes], specs),
    )  # fmt: skip


def _application(given: Any) -> tuple[type, dict[str, Any]]:
    """Return the class of an application and its parameters."""
    if isinstance(given, Triggers):
        return type(given), given.__dict__["_parameters"]
    if isinstance(given, type) and issubclass(given, Triggers) and given is not Triggers:
        return given, parameters_of(given, {})
    raise InputError(f"{excerpt(given)} is not a class of triggers: give a subclass of Triggers")


def _shared_tables(classes: Sequence[type]) -> dict[str, _SharedTable]:
    shared: dict[str, _SharedTable] = {}
    for cls in classes:
        for name, member in members_of(cls):
            if isinstance(member, Table):
                first = shared.setdefault(name, _SharedTable(name, member, cls.__name__))
                first.unite(member, cls.__name__)
    return shared


def _where(table: _SharedTable) -> str:
    return "everywhere" if table.broadcast else "key"


def _own_spec(name: str, trigger: Trigger, specs: dict[str, TableSpec]) -> TableSpec:
    """Return the table that only a trigger has: of what it last saw, or of partial results."""
    if isinstance(trigger, PlainTrigger):
        watched = specs[trigger.table]
        return TableSpec(name, TableElement(watched.key, watched.element.columns), watched.where)
    assert isinstance(trigger, Accumulator)
    return TableSpec(name, CellElement(trigger.algebra, trigger.value))


def _table_of(trigger: Trigger) -> str:
    assert isinstance(trigger, Accumulator)
    return trigger.table


def _triggers(
    application: int, cls: type, specs: dict[str, TableSpec]
) -> Iterable[PlainTrigger | Accumulator]:
    members = dict(members_of(cls))
    tables = {id(m): name for name, m in members.items() if isinstance(m, Table)}
    known = [specs[name] for name in tables.values() if specs[name].where == "key"]
    names = Names(
        {spec.name: {c.name for c in spec.element.columns} for spec in known},
        {
            s.name: {c.name for c in s.element.columns if type(c) is Column and c.kind == "int"}
            for s in known
        },
        [name for name, member in members.items() if isinstance(member, Accumulate)],
    )
    for name, member in members.items():
        if not isinstance(member, OnChange | Accumulate):
            continue
        code = member.function.__code__
        at = f"{code.co_filename}:{code.co_firstlineno}: {cls.__name__}.{name}"
        table_name = f"{cls.__name__}_{name}"
        if isinstance(member, Accumulate):
            function = rewritten(member.function, names)
            common = (application, name, function, code.co_filename, code.co_firstlineno)
            try:
                value = member.value
            except ProgramError as error:
                raise ProgramError(f"{at}: {error}") from None
            yield Accumulator(*common, table_name, member.algebra, value, member.synchronous)
            continue
        table = tables.get(id(member.table))
        if table is None:
            raise ProgramError(f"{at}: the table that it watches is not one of {cls.__name__}")
        places = {c.name: k for k, c in enumerate(specs[table].element.columns)}
        watched = frozenset(places[c] for c in member.columns or places)
        columns = [c.name for c in specs[table].element.columns if not isinstance(c, FamilyColumn)]
        function = rewritten(member.function, names, [member.table.key_name, *columns])
        common = (application, name, function, code.co_filename, code.co_firstlineno)
        when = _when(at, member.when, members)
        read = _columns_read(member.function, places, member.table.key_name)
        if when is not None:
            read |= _columns_read(when, places, member.table.key_name)
        yield PlainTrigger(*common, table, watched, when, f"{table_name}_seen", watched | read)


_ANY_VARIABLE = {"locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe"}


def _columns_read(function: Any, places: Mapping[str, int], key_name: str) -> frozenset[int]:
    """Return the places of the columns of the old row that an action, or a filter, may read.

    Args:
        function: is called with itself, the row and the old row.
        places: the places of the columns, by their names.
        key_name: the name of the first column.
    """
    everything = frozenset(places.values())
    if not isinstance(function, FunctionType):
        return everything
    code = function.__code__
    if code.co_argcount < 3 or not _ANY_VARIABLE.isdisjoint(code.co_names):
        return everything
    old, read = code.co_varnames[2], set[int]()
    instructions = list(dis.get_instructions(code))
    for one, following in zip(instructions, [*instructions[1:], None], strict=True):
        loaded = one.argval if isinstance(one.argval, tuple) else (one.argval,)
        if old not in loaded:
            continue
        attribute = following is not None and following.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if not one.opname.startswith("LOAD_FAST") or old in loaded[:-1] or not attribute:
            return everything  # the row itself is used
        assert following is not None
        if following.argval in places:
            read.add(places[following.argval])
        elif following.argval != key_name:
            return everything
    return frozenset(read)


def _combiners(
    classes: Sequence[type], specs: dict[str, TableSpec]
) -> dict[tuple[str, int], tuple[int, Callable[..., Any]]]:
    """Return what makes one value of two writes, by table and place of a column.

    Raises:
        ProgramError: a column has two.
    """
    combiners: dict[tuple[str, int], tuple[int, Callable[..., Any]]] = {}
    for k, cls in enumerate(classes):
        members = dict(members_of(cls))
        tables = {id(m): name for name, m in members.items() if isinstance(m, Table)}
        for name, member in members.items():
            if not isinstance(member, Combine):
                continue
            table = tables.get(id(member.table), "")
            if not table:
                raise ProgramError(f"{cls.__name__}.{name}: its table is not one of the class")
            columns = [c.name for c in specs[table].element.columns]
            at = table, columns.index(member.column)
            if at in combiners:
                raise ProgramError(
                    f"{cls.__name__}.{name}: {table}.{member.column} is combined by another method"
                )
            combiners[at] = k, member.function
    return combiners


def _when(at: str, when: Any, members: dict[str, Any]) -> Any:
    """Return the filter of a trigger.

    Raises:
        ProgramError: it is not one.
    """
    if isinstance(when, str):
        if when not in members:
            raise ProgramError(f"{at}: when={when!r}: no such method")
        when = members[when]
    if when is not None and not callable(when):
        raise ProgramError(f"{at}: when={excerpt(when)}: give the name of a method, or a function")
    if when is not None:
        require_parameters(when, "when")
    return when


def _place(cls: type) -> tuple[str, int]:
    """Return where a class is defined."""
    functions = [m.function for _, m in members_of(cls) if isinstance(m, OnChange | Accumulate)]
    if functions:
        return functions[0].__code__.co_filename, functions[0].__code__.co_firstlineno
    try:
        return inspect.getfile(cls), 1
    except (OSError, TypeError):  # made by exec
        return "?", 1
