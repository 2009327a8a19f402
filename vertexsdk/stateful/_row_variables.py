"""Variables that have a row of named fields, or an object that has one in it.

What a method has of a row is a copy as soon as another row of that state element is accessed: to
read it after that, or to set fields of what is not known to be the row itself, is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from vertexsdk.stateful._accesses import Access
from vertexsdk.stateful._expressions import in_order
from vertexsdk.stateful._names import MUTATORS, Refuse, Variables, loads, names_in, stores
from vertexsdk.stateful._steps import Guards, Site

_KEEPING = {
    "dict", "enumerate", "iter", "list", "max", "min", "next", "reversed", "set", "sorted", "tuple",
    "zip",
}  # fmt: skip


class RowVariables:
    """The rows that variables of one method have.

    Args:
        variables: of the method.
        refuse: raises, with a line.

    Attributes:
        rows: the row of each variable that has one.
        ever: all variables that had one at some time.
    """

    def __init__(self, variables: Variables, refuse: Refuse) -> None:
        self._variables, self._refuse = variables, refuse
        self.rows: dict[str, Site] = {}
        self.ever: set[str] = set()
        self._holders: dict[str, Site] = {}  # variables that have it within a list, say
        self._old: set[str] = set()  # of them, those whose row may be another one by now
        self._last: Site | None = None  # what was accessed last

    def sets(self, tree: ast.AST) -> list[Site]:
        """Return the rows of which a tree sets fields."""
        return [
            self.rows[n.value.id] for n in ast.walk(tree)
            if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)
            and isinstance(n.value, ast.Name) and n.value.id in self.rows
        ]  # fmt: skip

    def add(
        self, node: ast.stmt, site: Site | None, accesses: Sequence[Access], guards: Guards
    ) -> None:
        """Take in a statement that accesses one row at most.

        Args:
            node: the statement.
            site: the row.
            accesses: of the statement.
            guards: that have to hold for it to run.
        """
        for row in sorted(loads([node]) & self._old):
            table = (self.rows.get(row) or self._holders[row]).table
            shown = row if row in self._variables.bound else "the row"
            self._refuse(node, f"{shown} is a copy here, as {table} is accessed again before: "
                         "read its fields first")  # fmt: skip
        bound, held = self._bound(node, accesses)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute) and not isinstance(inner.ctx, ast.Load):
                of = inner.value
                known = isinstance(of, ast.Name) and (of.id in self.rows or of.id in bound)
                if not known and loads([of]) & (set(self._holders) | set(held)):
                    self._refuse(inner, f"{ast.unparse(of)} may be a copy of its row: set the "
                                 "fields of row, where row = self.x[key]")  # fmt: skip
        if site is not None and site != self._last:
            self._last = site
            having = [*self.rows.items(), *self._holders.items()]
            self._old |= {row for row, of in having if of.table == site.table}
        either = {row for row, of in bound.items() if guards and self.rows.get(row, of) != of}
        for stored in stores([node]):
            self.rows.pop(stored, None)
            self._holders.pop(stored, None)
            self._old.discard(stored)
        self.rows |= bound
        self.ever |= set(bound)
        self._holders |= held
        self._old |= either  # the row of one key or of another

    def _bound(
        self, node: ast.AST, accesses: Sequence[Access]
    ) -> tuple[dict[str, Site], dict[str, Site]]:
        """Return the variables that a statement binds to rows, and to what rows are in."""
        sites = {
            id(one.whole): one.site for one in accesses
            if one.row and not isinstance(one.whole, ast.Attribute)
        }  # fmt: skip
        bound, held = dict[str, Site](), dict[str, Site]()

        def row(value: ast.AST) -> Site | None:
            if isinstance(value, ast.Name):
                return bound.get(value.id) or self.rows.get(value.id)
            if isinstance(value, ast.NamedExpr):
                return row(value.value)
            if isinstance(value, ast.IfExp):
                return row(value.body) or row(value.orelse)
            if isinstance(value, ast.BoolOp):
                return next(filter(None, map(row, value.values)), None)
            return sites.get(id(value))

        def within(value: ast.AST) -> Site | None:
            site = row(value)
            if site is not None:
                return site
            if isinstance(value, ast.Name):
                return held.get(value.id) or self._holders.get(value.id)
            if isinstance(value, ast.Attribute | ast.Compare | ast.JoinedStr | ast.Lambda):
                return None
            parts: list[ast.AST] = list(ast.iter_child_nodes(value))
            if isinstance(value, ast.Call):
                function = value.func
                if isinstance(function, ast.Attribute):
                    parts = [function.value, *value.args]
                elif isinstance(function, ast.Name) and function.id in _KEEPING:
                    parts = [*value.args]
                else:
                    return None
            return next(filter(None, map(within, parts)), None)

        def bind(target: ast.AST, value: ast.AST) -> None:
            sequences = (ast.Tuple, ast.List)
            if isinstance(target, sequences) and isinstance(value, sequences):
                if len(target.elts) == len(value.elts):
                    for one, other in zip(target.elts, value.elts, strict=True):
                        bind(one, other)
                    return
            site = row(value)
            if site is not None and isinstance(target, ast.Name):
                bound[target.id] = site
                return
            site = within(value)
            if site is not None:
                names = names_in(target) - {self._variables.self_name}
                held.update(dict.fromkeys(names, site))

        for inner in in_order(node):
            if isinstance(inner, ast.Assign):
                for target in inner.targets:
                    bind(target, inner.value)
            elif isinstance(inner, ast.AnnAssign | ast.NamedExpr | ast.AugAssign) and inner.value:
                bind(inner.target, inner.value)
            elif isinstance(inner, ast.For | ast.comprehension):
                bind(inner.target, ast.List([inner.iter], ast.Load()))
            elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                if inner.func.attr in MUTATORS:
                    bind(inner.func.value, ast.List(inner.args, ast.Load()))
        return bound, held
