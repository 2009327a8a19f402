"""The steps of a method: statements that access one row at most, loops over rows, and `on_all`."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from vertexsdk.stateful._names import loads, name, stores, unset

Guards: TypeAlias = tuple[tuple[str, bool], ...]


class Site(NamedTuple):
    """The state element and the row that one step accesses.

    Attributes:
        table: the name of the state element.
        key: the row's key, as text with the names' versions; None where any row may be accessed.
    """

    table: str
    key: Any


@dataclass
class Step:
    """A statement.

    Attributes:
        guards: variables that have to be true or false for it to run.
        site: what it accesses.
        key: the expression of the key by which it accesses that.
        writes: it may change the row.
    """

    statement: ast.stmt
    guards: Guards
    site: Site | None = None
    key: ast.expr | None = None
    writes: bool = False

    @cached_property
    def stores(self) -> set[str]:
        """The names that the statement binds."""
        return stores([self.statement])

    @cached_property
    def loads(self) -> set[str]:
        """The names that it and its guards read."""
        return loads([self.statement]) | {guard for guard, _ in self.guards}

    @cached_property
    def unset(self) -> set[str]:
        """The names that it may leave without a value."""
        return unset(self.statement)


@dataclass
class Loop:
    """A loop whose items are rows.

    Attributes:
        over: what it runs over.
        target: its variable or variables.
        steps: the steps of each item.
        names: the variables of an item that the steps after all items need.
        parts: the task elements that the steps become.
    """

    guards: Guards
    over: ast.expr
    target: ast.expr
    steps: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)


@dataclass
class Everywhere:
    """An `on_all` expression.

    Attributes:
        name: the variable that has its partial value.
        table: the state element.
        expression: what is evaluated on each partition.
        place: the place of the task element that it becomes.
    """

    guards: Guards
    name: str
    table: str
    expression: ast.expr
    place: int = -1


def under(guards: Guards, statement: ast.stmt) -> ast.stmt:
    """Return a statement that runs where its guards hold."""
    if not guards:
        return statement
    made = ast.If(test(guards), [statement], [])
    return ast.fix_missing_locations(ast.copy_location(made, statement))


def test(guards: Guards) -> ast.expr:
    """Return whether guards hold."""
    tests: list[ast.expr] = [
        name(guard) if holds else ast.UnaryOp(ast.Not(), name(guard)) for guard, holds in guards
    ]
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
