"""`Triggers`: a class whose methods run when cells of tables change."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.keyed import CONVERTERS, DEFAULTS, DTYPES, KINDS
from vertexsdk.program.table_columns import Column, FamilyColumn, VectorColumn
from vertexsdk.program.vertex import MISSING, Field, declared_fields
from vertexsdk.triggers.table import Table


class Mean(Algebra):
    """The mean of the cells of a row of an accumulator.

    An accumulator of means does not run for a row without cells.

    Args:
        type: int or float.
        size: the length of vectors; None for numbers.

    Raises:
        ProgramError: `type` is something else.

    Example:
        >>> Mean(float, size=20)
        Mean(float, size=20)
    """

    kind = "mean"

    def __init__(self, type: type, size: int | None = None) -> None:
        if type not in (int, float):
            raise ProgramError(f"Mean({getattr(type, '__name__', type)}): takes int or float")
        super().__init__(type, combine=_not_combined, identity=math.nan, size=size)


def _not_combined(a: Any, b: Any) -> Any:
    raise ProgramError("Mean is for accumulators of triggers: @accumulate(Mean(float))")


class OnChange:
    """A method that runs when a row of a table changes: what `on_change` makes of it.

    Args:
        function: the method.
        table: the table that it watches.
        columns: the columns that it watches; none are all.
        when: the filter, a function or the name of a method.
    """

    def __init__(
        self, function: FunctionType, table: Table, columns: tuple[str, ...], when: Any
    ) -> None:
        self.function, self.table, self.columns, self.when = function, table, columns, when
        self.name = function.__name__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class Combine:
    """A method that makes one value of two writes: what `combine` makes of it.

    Args:
        function: the method.
        table: the table that is written to.
        column: the column that is written to.
    """

    def __init__(self, function: FunctionType, table: Table, column: str) -> None:
        self.function, self.table, self.column = function, table, column


class Accumulate:
    """A method that runs when a partial result arrives: what `accumulate` makes of it.

    Args:
        function: the method.
        algebra: makes one value of partial results.
        synchronous: it waits for the end of a round.
    """

    def __init__(self, function: FunctionType, algebra: Algebra, *, synchronous: bool) -> None:
        self.function, self.algebra, self.synchronous = function, algebra, synchronous

    @property
    def value(self) -> Column:
        """The column that partial results are of.

        Raises:
            ProgramError: the algebra is of another type.
        """
        of = self.algebra.type
        kind = next((k for k in ("bool", "int", "float", "str") if _is_kind(of, k)), None)
        if kind is None:
            raise ProgramError(f"{self.algebra!r}: an accumulator is of int, float, bool or str")
        if self.algebra.size is not None:
            zeros = np.zeros(self.algebra.size, DTYPES[kind]).tobytes()
            return VectorColumn("value", kind, zeros, self.algebra.size)
        return Column("value", kind, DEFAULTS[kind])


def _is_kind(of: Any, kind: str) -> bool:
    return isinstance(of, type) and issubclass(of, KINDS[kind])


def on_change(
    table: Table, *columns: str, when: str | Callable[..., Any] | None = None
) -> Callable[[Any], Any]:
    """Have a method run when a row of a table is inserted, deleted, or changes in some columns.

    The method is called with the row and with the row as this method last saw it, in which a row
    that was not there has the defaults of its columns. So no change is missed where several came
    together. What the method sets in columns that it does not watch, it has seen. A row that is
    not there is false: `if not page: ...` is for deleted ones.

    Args:
        table: in the body of the class.
        columns: their names, or those of families; none are all.
        when: the name of a method, or a function, which is called as the method is; where it
            returns False the method does not run, and has not seen the row.

    Returns:
        The decorator.

    Raises:
        ProgramError: it is not a table, has no such column, or a method takes other parameters.

    Example:
        >>> class Words(Triggers):
        ...     pages = Table(url=str, text=str)
        ...     words = Table(word=str, count=int)
        ...     @on_change(pages, "text")
        ...     def split(self, page, old):
        ...         for word in old.text.split():
        ...             self.words[word].count -= 1
        ...         for word in page.text.split():
        ...             self.words[word].count += 1
    """
    if not isinstance(table, Table):
        raise ProgramError(
            f"on_change({excerpt(table)}): give a Table of the class and the names of columns, as "
            '@on_change(pages, "text")'
        )
    for name in columns:
        if name not in table.columns:
            key = " (the key never changes)" if name == table.key_name else ""
            raise ProgramError(
                f"on_change: the table has no column {excerpt(name)}{key}; it has "
                f"{', '.join(table.columns) or 'only its key'}"
            )

    if isinstance(when, FunctionType):
        require_parameters(when, "when")

    def decorate(function: Any) -> OnChange:
        _require_function(function, "on_change")
        return OnChange(function, table, columns, when)

    return decorate


def combine(table: Table, column: str) -> Callable[[Any], Any]:
    """Have a method make one value of two that actions set a column to in the same round.

    Without it the last one counts, in the order of triggers, rows and writes. The method is called
    with the earlier and the later value (section 5.3 of the Domino paper).

    Args:
        table: in the body of the class.
        column: its name; not a family.

    Returns:
        The decorator.

    Raises:
        ProgramError: it is not a table, or has no such column.

    Example:
        >>> class Longest(Triggers):
        ...     pages = Table(url=str, text=str)
        ...     sites = Table(site=str, longest=str)
        ...     @on_change(pages, "text")
        ...     def look(self, page, old):
        ...         self.sites[page.url.partition("/")[0]].longest = page.text
        ...     @combine(sites, "longest")
        ...     def longer(self, one, other):
        ...         return max(one, other, key=len)
    """
    if not isinstance(table, Table):
        raise ProgramError(
            f"combine({excerpt(table)}): give a Table of the class and the name of a column"
        )
    if column not in table.columns or isinstance(table.columns[column], FamilyColumn):
        known = [n for n, c in table.columns.items() if not isinstance(c, FamilyColumn)]
        raise ProgramError(
            f"combine: the table has no column {excerpt(column)}; it has {', '.join(known)}"
        )

    def decorate(function: Any) -> Combine:
        _require_function(function, "combine")
        return Combine(function, table, column)

    return decorate


def accumulate(algebra: Algebra, *, synchronous: bool = True) -> Callable[[Any], Any]:
    """Have a method run with the value of partial results that actions write, row by row.

    Actions write `self.incoming[key][column] = value`, and `self.incoming[key].discard(column)`;
    keys and columns are ints or strings. The method is called with the key and with the value of
    all cells of its row; without cells that is the identity of the algebra. `Latest` makes a dict
    of them.

    Args:
        algebra: `Sum`, `Min`, `Max`, `Mean` or `Latest` of int or float, also with a size, or an
            `Algebra`.
        synchronous: it runs at the end of each round, on all that arrived in it. False: what the
            own processor sends does not wait for that end.

    Returns:
        The decorator.

    Raises:
        ProgramError: it is not an algebra.

    Example:
        >>> from vertexsdk import Sum
        >>> class Votes(Triggers):
        ...     voters = Table(name=str, choice=str)
        ...     options = Table(choice=str, votes=int)
        ...     @on_change(voters, "choice")
        ...     def vote(self, voter, old):
        ...         self.ballots[old.choice].discard(voter.name)
        ...         if voter:
        ...             self.ballots[voter.choice][voter.name] = 1
        ...     @accumulate(Sum(int), synchronous=True)
        ...     def ballots(self, choice, votes):
        ...         self.options[choice].votes = votes
    """
    if not isinstance(algebra, Algebra):
        raise ProgramError(
            f"accumulate({excerpt(algebra)}): give an algebra, as @accumulate(Sum(float))"
        )

    def decorate(function: Any) -> Accumulate:
        _require_function(function, "accumulate")
        return Accumulate(function, algebra, synchronous=bool(synchronous))

    return decorate


_RUNS_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_TAKES = {
    "on_change": "the row and the old row", "when": "the row and the old row",
    "accumulate": "a key and a value", "combine": "the earlier and the later value",
}  # fmt: skip


def _require_function(function: Any, decorator: str) -> None:
    if not isinstance(function, FunctionType):
        raise ProgramError(f"{decorator} decorates a method, and not {excerpt(function)}")
    if function.__code__.co_flags & _RUNS_LATER:
        raise ProgramError(
            f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}: "
            f"{function.__name__} is a coroutine or a generator, which would not run: write a "
            "method without async and yield"
        )
    require_parameters(function, decorator)


def require_parameters(function: Callable[..., Any], use: str) -> None:
    """Refuse a function that cannot be called with an object and two values.

    Args:
        function: which is called so.
        use: "on_change", "when", "accumulate" or "combine".

    Raises:
        ProgramError: it has other parameters.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a function in C
        return
    try:
        signature.bind(None, None, None)
    except TypeError:
        code = getattr(function, "__code__", None)
        at = f"{code.co_filename}:{code.co_firstlineno}: " if code else ""
        name = getattr(function, "__name__", excerpt(function))
        raise ProgramError(
            f"{at}{name} takes self, {_TAKES[use]}, and is declared as {name}{signature}"
        ) from None


class Triggers:
    """The base of a class of triggers: tables, methods that run when these change, accumulators.

    State is in tables alone. `Rank(tolerance=1e-6)` sets parameters; a class by itself has their
    defaults. A `TriggerLoop` runs one or several of them.

    Args:
        parameters: the value of each `param()`.

    Raises:
        InputError: no such parameter, one has no value, or it is of another type.

    Example:
        >>> from vertexsdk import Sum, param
        >>> class Rank(Triggers):
        ...     pages = Table(url=str, links=list[str], rank=0.15)
        ...     tolerance: float = param(1e-9)
        ...     @on_change(pages, "links", "rank", when="changed")
        ...     def spread(self, page, old):
        ...         for url in old.links:
        ...             self.incoming[url].discard(page.url)
        ...         for url in page.links:
        ...             self.incoming[url][page.url] = 0.85 * page.rank / len(page.links)
        ...     def changed(self, page, old):
        ...         return page.links != old.links or abs(page.rank - old.rank) > self.tolerance
        ...     @accumulate(Sum(float), synchronous=True)
        ...     def incoming(self, url, total):
        ...         self.pages[url].rank = 0.15 + total
        >>> Rank(tolerance=1e-6)
        Rank(tolerance=1e-06)
    """

    def __init__(self, **parameters: Any) -> None:
        values = parameters_of(type(self), parameters)
        object.__setattr__(self, "_parameters", values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ProgramError(f"{type(self).__name__}.{name}: keep state in a column of a Table")

    def activate(self, trigger: Any, where: str | Callable[..., Any] = "") -> None:
        """In an action: have a trigger run for all rows of its table, at the end of the round.

        It runs for the rows that are there then, whether or not they have changed, and without its
        `when=`. What it writes has an effect when it has run for all of them (All-Activate, section
        5.1 of the Domino paper).

        Args:
            trigger: `self.assign`, or its name; of another class "Class.method".
            where: a method of the trigger's class, or its name, which is called with each row;
                where it returns False the trigger does not run.

        Raises:
            InputError: no such trigger or method, or no action runs.

        Example:
            >>> class KMeans(Triggers):
            ...     items = Table(id=int, point=float, nearest=float)
            ...     centres = Table(id=int, point=float, broadcast=True)
            ...     @on_change(items, "point")
            ...     def assign(self, item, old):
            ...         points = [centre.point for centre in self.centres]
            ...         item.nearest = min(points, key=lambda point: abs(point - item.point))
            ...     @on_change(centres, "point")
            ...     def again(self, centre, old):
            ...         self.activate(self.assign)
        """
        activation = self.__dict__.get("_activation")
        if activation is None:
            raise InputError("activate is for actions; from outside use TriggerLoop.activate")
        activation(name_of(trigger), name_of(where))

    def __repr__(self) -> str:
        given = self.__dict__["_parameters"]
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"


def name_of(method: Any) -> str:
    """Return the name of a method that is given by its name or as it is.

    Raises:
        InputError: it is neither.
    """
    if isinstance(method, str):
        return method
    name = getattr(method, "name" if isinstance(method, OnChange) else "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise InputError(f"{excerpt(method)} is not a method of the class: give one, or its name")
    return name


def parameters_of(cls: type, given: dict[str, Any]) -> dict[str, Any]:
    """Return the value of each parameter of a class.

    Raises:
        InputError: as `Triggers` says.
    """
    fields = {n: f for n, f in declared_fields(cls) if isinstance(f, Field) and f.role == "param"}
    for name in given:
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise InputError(f"{cls.__name__} has no parameter {name!r}; it has: {known}")
    values = {}
    for name, one in fields.items():
        value = given.get(name, one.default)
        if value is MISSING:
            raise InputError(
                f"{cls.__name__} needs a value for {name}: give {cls.__name__}({name}=...)"
            )
        kind = next((k for k, of in KINDS.items() if _annotation(cls, name) in (of, k)), None)
        try:
            value = value if kind is None or value is None else CONVERTERS[kind](value)
        except InputError as error:
            raise InputError(f"{cls.__name__}({name}=...): {error}") from None
        if one.bounds is not None and value is not None and not one.bounds.hold(value):
            raise InputError(f"{cls.__name__}({name}={value!r}): it has to be in {one.bounds}")
        values[name] = value
    return values


def _annotation(cls: type, name: str) -> Any:
    annotations = [vars(base).get("__annotations__", {}) for base in cls.__mro__]
    return next((a[name] for a in annotations if name in a), None)


def members_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a class and its bases, those of the bases first."""
    merged: dict[str, Any] = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(Triggers)]):
        merged |= vars(base)
    yield from merged.items()
