"""Find what the expressions of a method access: the state element, its key, and whether it may be
changed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from vertexsdk.program.keyed_state import StateElement
from vertexsdk.stateful._expressions import (
    CONSUMERS,
    DEFERRED,
    UNDIVIDED,
    Parents,
    ancestors,
    comprehensions_around,
    evaluated,
    in_order,
    is_conditional,
    is_consumed,
    is_first,
    is_pure,
    only_reads,
    parents_of,
)
from vertexsdk.stateful._names import MUTATORS, Refuse, Variables, loads, names_in, stores
from vertexsdk.stateful._steps import Site
from vertexsdk.stateful.placement import Placement

_BRACKETS = {ast.Load: "__getitem__", ast.Store: "__setitem__", ast.Del: "__delitem__"}
_SHOWN = {
    "__getitem__": "[]", "__setitem__": "[]", "__delitem__": "del", "__contains__": "in",
    "__iter__": "for", "__len__": "len()",
}  # fmt: skip


class Access(NamedTuple):
    """One access to a state element.

    Attributes:
        node: `self.x`.
        table: its name.
        key: what its row is found by; None where any row of the partition may be accessed.
        writes: it may change the row.
        row: it may return a row of named fields.
        expression: the access with its key, which is replaced where it is read beforehand.
        site: the row.
        late: the names that the key has and the tree binds; "" where the key cannot be evaluated
            before the tree is.
    """

    node: ast.Attribute
    table: str
    key: ast.expr | None
    writes: bool
    row: bool
    expression: ast.AST
    site: Site = Site("", None)
    late: frozenset[str] = frozenset()


class _Use(NamedTuple):
    """One use of a state element.

    Attributes:
        method: what is called, or the property; "" for nothing that an element may have.
        argument: the first one; None for none.
        expression: the use with its key and arguments.
    """

    method: str
    argument: ast.expr | None
    expression: ast.AST


def _use(node: ast.Attribute, parents: Parents) -> _Use:
    """Return how `self.x` is used."""
    parent = parents[node]
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return _Use(_BRACKETS[type(parent.ctx)], parent.slice, parent)
    if isinstance(parent, ast.Compare) and parent.comparators == [node]:
        contains = isinstance(parent.ops[0], ast.In | ast.NotIn)
        return _Use("__contains__" if contains else "", parent.left, parent)
    if isinstance(parent, ast.For | ast.comprehension):
        return _Use("__iter__", None, node)
    if isinstance(parent, ast.Attribute):
        call = parents.get(parent)
        if isinstance(call, ast.Call) and call.func is parent:
            return _Use(parent.attr, call.args[0] if call.args else None, call)
        return _Use(parent.attr, None, parent)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name):
        of = parent.func.id
        return _Use("__len__" if of == "len" else "__iter__" * (of in CONSUMERS), None, parent)
    return _Use("", None, parent)


def _key_of(
    element: StateElement, node: ast.Attribute, method: str, argument: ast.expr | None
) -> ast.expr | None:
    """Return the key of a use of a state element; None where it has none."""
    if not element.keyed:
        return ast.copy_location(ast.Constant(0), node)
    if method in (*_BRACKETS.values(), "__contains__") and len(element.brackets) > 1:
        parts = argument.elts if isinstance(argument, ast.Tuple) else []
        argument = None
        if len(parts) == len(element.brackets):
            argument = parts[element.brackets.index("key")]
    without = method in element.without_key or isinstance(argument, ast.Starred | ast.Slice)
    return None if without else argument


def _ways(name: str, element: StateElement, *, by_key: bool) -> str:
    """Return how a state element can be used, as text."""
    ways = dict.fromkeys(
        _SHOWN.get(method, f".{method}") for method in (*element.reads, *element.writes)
        if not (by_key and method in element.without_key)
    )  # fmt: skip
    return ", ".join(ways).replace("[]", f"self.{name}[{', '.join(element.brackets)}]")


class Accesses:
    """The accesses of the statements of one method.

    Args:
        elements: the state elements of the class, by name.
        variables: the method's variables.
        is_on_all: tells whether an expression is the function `on_all`.
        refuse: raises, with a line.
        known: the row whose key has been evaluated already wherever a statement comes to be looked
            at; None for none.
    """

    def __init__(
        self, elements: dict[str, Placement], variables: Variables,
        is_on_all: Callable[[ast.expr], bool], refuse: Refuse, known: Callable[[], Site | None],
    ) -> None:  # fmt: skip
        self._elements, self._variables, self._known = elements, variables, known
        self._is_on_all, self._refuse = is_on_all, refuse

    def __call__(self, tree: ast.AST) -> list[Access]:
        """Return the accesses of a tree in their order."""
        parents, result = parents_of(tree), list[Access]()
        bound = stores([tree]) if isinstance(tree, ast.stmt) else set[str]()
        if isinstance(tree, ast.Assign | ast.AugAssign | ast.AnnAssign):
            bound = stores([tree.value]) if tree.value else set()
        for node in in_order(tree):
            if not (isinstance(node, ast.Attribute) and self._is_element(node)):
                continue
            above = list(ancestors(node, parents))
            call = above[0] if above else None
            if isinstance(call, ast.Call) and self._is_on_all(call.func):
                continue
            one = self._access(node, parents)
            for outer in above:
                deferred = isinstance(outer, DEFERRED) and not is_consumed(outer, parents)
                if deferred and not is_first(node, outer, parents):
                    self._refuse(node, f"a function, lambda or generator reads {node.attr} when the"
                                 " call may be over: read it first")  # fmt: skip
            late = set[str]()
            if one.key is not None:
                local = set[str]().union(*(
                    names_in(c.target)
                    for outer in comprehensions_around(node, parents) for c in outer.generators
                ))  # fmt: skip
                late = loads([one.key]) & (bound | local)
                conditional = any(map(is_conditional, above))
                named = isinstance(one.key, ast.Name) and isinstance(tree, UNDIVIDED)
                if conditional and not named and not self._is_safe(one):
                    late.add("")
            result.append(one._replace(site=self._site(one), late=frozenset(late)))
        return result

    def _is_element(self, node: ast.Attribute) -> bool:
        of = node.value
        known = isinstance(of, ast.Name) and of.id == self._variables.self_name
        return known and node.attr in self._elements

    def _is_safe(self, one: Access) -> bool:
        """Return whether a key can be evaluated where the call may not come to its access."""
        key = one.key
        if isinstance(key, ast.Constant):
            return True
        if self._known() == self._site(one):
            return True
        if not isinstance(key, ast.Name) or self._variables.versions[key.id]:
            return False
        kind = self._variables.kinds.get(key.id, "")
        return kind in (None, self._elements[one.table].spec.key)

    def _access(self, node: ast.Attribute, parents: Parents) -> Access:
        """Return the access that a use of a state element is."""
        declared = self._elements[node.attr]
        element, by_key = declared.element, declared.where == "key"
        if node not in parents or not isinstance(node.ctx, ast.Load):
            self._refuse(node, f"self.{node.attr} is a state element: it cannot be set, or be "
                         "passed on")  # fmt: skip
        method, argument, expression = _use(node, parents)
        of_property = isinstance(expression, ast.Attribute)
        if of_property and callable(getattr(element.state.view or element.state, method, None)):
            method = ""  # is not called
        is_read = of_property and isinstance(expression.ctx, ast.Load)  # type: ignore[attr-defined]
        writes = method in element.writes and not is_read
        key = _key_of(element, node, method, argument) if by_key else None
        known = writes or (method in element.reads and (is_read or not of_property))
        if not known or (by_key and key is None):
            self._refuse_use(node, declared, method)
        row = method in element.row_methods
        if row:  # of which fields may be set later
            outer = parents.get(expression)
            reads = isinstance(outer, ast.Attribute) and isinstance(outer.ctx, ast.Load)
            writes = writes or not (reads and outer.attr in element.fields)  # type: ignore[union-attr]
            expression = outer if isinstance(outer, ast.Attribute) else expression
        return Access(node, node.attr, key, writes, row, expression)

    def _refuse_use(self, node: ast.Attribute, declared: Placement, method: str) -> NoReturn:
        element, by_key = declared.element, declared.where == "key" and declared.element.keyed
        if method in element.instead:
            self._refuse(node, f"self.{node.attr}.{method}: {element.instead[method]}")
        unknown = method and method not in (*element.reads, *element.writes, *_BRACKETS.values())
        begins = f"{type(element).__name__} does not declare {method}: " if unknown else ""
        how = "by its key alone" if by_key else "in these ways alone"
        all_rows = [m for m in element.without_key if m not in element.instead and m[0] != "_"]
        rest = f"; all rows: on_all(self.{node.attr}).{all_rows[0]}()" if all_rows * by_key else ""
        self._refuse(node, f"{begins}self.{node.attr} is accessed {how}: "
                     f"{_ways(node.attr, element, by_key=by_key)}{rest}")  # fmt: skip

    def _site(self, one: Access) -> Site:
        if one.key is None:
            return Site(one.table, None)
        names = sorted(loads([one.key]))
        text = ast.dump(one.key) if self.is_pure(one.key) else id(one.key)
        return Site(one.table, (text, tuple((n, self._variables.versions[n]) for n in names)))

    def is_pure(self, key: ast.expr) -> bool:
        """Return whether a key has the same value when it is evaluated again, wherever that is."""
        return is_pure(key) and not self._variables.looks_into(key) and not any(
            isinstance(n, ast.Attribute) and self._is_element(n) for n in ast.walk(key)
        )  # fmt: skip

    def check_order(self, tree: ast.AST) -> None:
        """Refuse an expression of which a part that is read beforehand depends on a part that is
        evaluated before it.
        """
        parents, accesses, variables = parents_of(tree), self(tree), self._variables
        keys = {id(n) for one in accesses if one.key is not None for n in ast.walk(one.key)}
        at = {id(node): k for k, node in enumerate(evaluated(tree))}
        element_nodes = set(map(id, (one.node for one in accesses)))
        effects = [
            n for n in ast.walk(tree) if id(n) in at and id(n) not in keys and (
                isinstance(n, ast.NamedExpr)
                or (isinstance(n, ast.Call) and not only_reads(n) and variables.mutable(n)
                    and not (isinstance(n.func, ast.Attribute)
                             and id(n.func.value) in element_nodes))
            )
        ]  # fmt: skip
        early: list[tuple[Any, set[str], str]] = [
            (chain, variables.mutable(chain), "on_all") for chain in self.chains(tree)
        ]
        for one in accesses:
            outer = comprehensions_around(one.node, parents)
            read = variables.mutable(outer[-1]) if outer else variables.looks_into(one.expression)
            early.append((outer[-1] if outer else one.expression, read, one.table))
        for expression, read, table in early:
            inside = set(map(id, ast.walk(expression)))
            for effect in effects:
                if id(effect) in inside or at[id(effect)] > at.get(id(expression), len(at)):
                    continue
                sets = stores([effect]) & loads([expression])
                if sets or (read and isinstance(effect, ast.Call)):
                    shown = ast.unparse(effect)
                    self._refuse(effect, f"{table} is read after {shown}, which may change what it "
                                 "is read by: write it in a statement of its own")  # fmt: skip
        for one in accesses:
            within = set(map(id, ast.walk(one.key))) if one.key is not None else set()
            of_key = {other.table for other in accesses if id(other.node) in within}
            place = at.get(id(one.expression), len(at))
            for other in accesses:
                earlier = at.get(id(other.expression), len(at)) < place
                written = earlier and other.writes and other.table in of_key
                if written and id(other.node) not in keys:
                    self._refuse(
                        one.node,
                        f"the key of {one.table} is read from {other.table} after it was changed: "
                        "read it in a statement of its own",
                    )

    def on_all_calls(self, tree: ast.AST) -> list[ast.Call]:
        """Return the calls `on_all(self.x)` of a tree."""
        return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and self._is_on_all(n.func)]

    def chains(self, tree: ast.AST) -> list[ast.expr]:
        """Return the `on_all` expressions of a tree."""
        parents, chains = parents_of(tree), list[ast.expr]()
        for node in self.on_all_calls(tree):
            given = node.args[0] if len(node.args) == 1 else None
            if not (isinstance(given, ast.Attribute) and self._is_element(given)):
                self._refuse(node, "on_all takes a state element, as on_all(self.x)")
            outer = parents.get(node)
            method = getattr(outer, "attr", "__getitem__")
            if isinstance(outer, ast.Attribute) and isinstance(
                call := parents.get(outer), ast.Call
            ) and call.func is outer:  # fmt: skip
                self._check_everywhere(call)
                outer = call
            if not isinstance(outer, ast.Call | ast.Attribute | ast.Subscript) or not isinstance(
                getattr(outer, "ctx", ast.Load()), ast.Load
            ):
                self._refuse(node, "on_all(self.x) is part of one expression that reads, as "
                             "on_all(self.x).items()")  # fmt: skip
            self._check_reads(outer, given.attr, method)
            chains.append(outer)
        return chains

    def _check_reads(self, node: ast.AST, name: str, method: str) -> None:
        """Refuse a method on all partitions that is not one that reads."""
        element = self._elements[name].element
        if method in element.reads:
            return
        if method in element.writes:
            self._refuse(node, f"{method} on all partitions changes the state element: give it a "
                         "Broadcast, or change the one of the call's partition")  # fmt: skip
        self._refuse(node, f"{type(element).__name__} does not declare {method} among what reads: "
                     f"{', '.join(m for m in element.reads if m[0] != '_')}")  # fmt: skip

    def _check_everywhere(self, call: ast.Call) -> None:
        """Refuse an expression on all partitions that changes something."""
        for node in ast.walk(call):
            is_function = node is call.func
            if isinstance(node, ast.Attribute) and node.attr in MUTATORS and not is_function:
                shown = ast.unparse(node.value)
                self._refuse(node, f"an expression on all partitions changes {shown}, of which "
                             "each has a copy: change it with what gather_all returns")  # fmt: skip
            if isinstance(node, ast.NamedExpr | ast.Lambda):
                self._refuse(node, "an expression on all partitions sets no variable, and has no "
                             "function of its own: use what gather_all returns")  # fmt: skip
