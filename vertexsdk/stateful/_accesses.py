"""What the expressions of a method access: which state element, by which key, and whether it may be
changed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple

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
from vertexsdk.stateful.elements import Array, Broadcast, Map, Matrix, StateElement, Value

_READS, _WRITES = {"get"}, {"pop", "setdefault"}
_ALL_READS = {"column", "get", "items", "keys", "multiply", "row", "values"}
_ALL_WRITES = {"clear", "pop", "setdefault"}


class Access(NamedTuple):
    """One access to a state element.

    Attributes:
        node: `self.x`.
        table: its name.
        key: what its row is found by; None where any row of the partition may be accessed.
        writes: it may change the row.
        row: it may return a row of named fields.
        whole: the expression with its key, which is replaced where it is read beforehand.
        site: the row.
        late: the names that the key has and the tree binds; "" where the key cannot be evaluated
            before the tree is.
    """

    node: ast.Attribute
    table: str
    key: ast.expr | None
    writes: bool
    row: bool
    whole: ast.AST
    site: Site = Site("", None)
    late: frozenset[str] = frozenset()


class NotByKey(Exception):
    """A use of a state element that is not one of its key's row; says how to use it."""


def access(node: ast.Attribute, declared: StateElement, parents: Parents) -> Access:
    """Return what a use of a state element is.

    Args:
        node: `self.x`.
        declared: the state element of that name.
        parents: of the nodes around it.

    Raises:
        NotByKey: it is not a use of the row of one key.
    """
    element = declared.element
    if declared.where == "key":
        found = _by_key(node, element, parents)
    else:
        found = _anywhere(node, element, parents)
        if isinstance(declared, Broadcast) or found.key is not None:
            found = found._replace(key=None)
    outer = parents.get(found.whole)
    if found.row:  # of which fields may be set later
        reads = isinstance(outer, ast.Attribute) and isinstance(outer.ctx, ast.Load)
        reads = reads and outer.attr in element.fields  # type: ignore[union-attr]
        found = found._replace(writes=found.writes or not reads)
        if isinstance(outer, ast.Attribute):
            found = found._replace(whole=outer)
    return found


def _by_key(node: ast.Attribute, element: Any, parents: Parents) -> Access:
    parent = parents[node]
    call = parents.get(parent)
    called = (
        isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent
    )
    row = isinstance(element, Map) and not element.single

    def found(key: ast.expr | None, writes: bool, whole: ast.AST, row: bool = False) -> Access:
        return Access(node, node.attr, key, writes, row, whole)

    if isinstance(element, Value):
        if isinstance(parent, ast.Attribute) and parent.attr == "value":
            writes = not isinstance(parent.ctx, ast.Load)
            return found(ast.copy_location(ast.Constant(0), node), writes, parent)
        raise NotByKey(f"self.{node.attr}.value")
    within: ast.expr | None = None
    if isinstance(parent, ast.Subscript) and parent.value is node:
        within, writes, whole = parent.slice, not isinstance(parent.ctx, ast.Load), parent
        if isinstance(element, Matrix):
            within = _major(element, within)
        if within is not None:
            return found(within, writes, whole, row)
    if isinstance(parent, ast.Compare) and parent.comparators == [node]:
        if isinstance(parent.ops[0], ast.In | ast.NotIn) and not isinstance(element, Array):
            within = parent.left
            if isinstance(element, Matrix):
                within = _major(element, within)
            if within is not None:
                return found(within, False, parent)
    if called and isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.args:
        if isinstance(element, Matrix):
            across = "row" if element.by_column else "column"
            if parent.attr == across:
                raise NotByKey("by row and by column")
            if parent.attr in ("row", "column", "clear"):
                return found(call.args[0], parent.attr == "clear", call)
        elif isinstance(element, Map) and parent.attr in _READS | _WRITES:
            return found(call.args[0], parent.attr in _WRITES, call, row)
    name = node.attr
    if isinstance(element, Matrix):
        way = "column" if element.by_column else "row"
        raise NotByKey(f"self.{name}[row, column], {way}, clear, in, del")
    if isinstance(element, Array):
        raise NotByKey(f"self.{name}[place]")
    raise NotByKey(f"self.{name}[key], get, pop, setdefault, in, del")


def _major(element: Matrix, within: ast.expr) -> ast.expr | None:
    if isinstance(within, ast.Tuple) and len(within.elts) == 2:
        return within.elts[1 if element.by_column else 0]
    return None


def _anywhere(node: ast.Attribute, element: Any, parents: Parents) -> Access:
    """A use of a state element of which all rows are on the partition."""
    parent = parents[node]
    call = parents.get(parent)
    row = isinstance(element, Map) and not element.single
    writes, whole, returns_row = False, parent, False
    if isinstance(parent, ast.Subscript) and parent.value is node:
        writes, returns_row = not isinstance(parent.ctx, ast.Load), row
    elif isinstance(parent, ast.Attribute) and isinstance(element, Value):
        writes = not isinstance(parent.ctx, ast.Load)
    elif isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
        if parent.attr not in _ALL_READS | _ALL_WRITES:
            raise NotByKey(f"self.{node.attr}[...], {', '.join(sorted(_ALL_READS | _ALL_WRITES))}")
        writes, whole = parent.attr in _ALL_WRITES, call
        returns_row = row and parent.attr in {"get", "setdefault"}
    elif not (
        isinstance(parent, ast.Compare | ast.For | ast.comprehension)
        or (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Name)
            and parent.func.id in CONSUMERS
        )
    ):
        raise NotByKey(f"self.{node.attr}[...], {', '.join(sorted(_ALL_READS | _ALL_WRITES))}")
    if isinstance(parent, ast.For | ast.comprehension):
        whole = node
    return Access(node, node.attr, None, writes, returns_row, whole)


class Accesses:
    """What the statements of one method access.

    Args:
        elements: the state elements of the class, by name.
        variables: of the method.
        is_on_all: whether an expression is the function `on_all`.
        refuse: raises, with a line.
        known: the row whose key has been evaluated already wherever a statement comes to be looked
            at; None for none.
    """

    def __init__(
        self, elements: dict[str, StateElement], variables: Variables,
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
        """Whether a key can be evaluated where the call may not come to its access."""
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
        declared = self._elements[node.attr]
        if node not in parents or not isinstance(node.ctx, ast.Load):
            self._refuse(node, f"self.{node.attr} is a state element: it cannot be set, or be "
                         "passed on")  # fmt: skip
        try:
            return access(node, declared, parents)
        except NotByKey as error:
            if isinstance(declared.element, Matrix) and "and" in str(error):
                self._refuse(node, f"{node.attr} would be accessed by row and by column: keep the "
                             "same cells in a second Matrix, with by='column'")  # fmt: skip
            how = "by its key alone" if declared.where == "key" else "in these ways alone"
            rest = (
                f"; all rows: on_all(self.{node.attr}).items()" if declared.where == "key" else ""
            )
            self._refuse(node, f"self.{node.attr} is accessed {how}: {error}{rest}")

    def _site(self, one: Access) -> Site:
        if one.key is None:
            return Site(one.table, None)
        names = sorted(loads([one.key]))
        text = ast.dump(one.key) if self.is_pure(one.key) else id(one.key)
        return Site(one.table, (text, tuple((n, self._variables.versions[n]) for n in names)))

    def is_pure(self, key: ast.expr) -> bool:
        """Whether a key has the same value when it is evaluated again, wherever that is."""
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
        own = set(map(id, (one.node for one in accesses)))
        effects = [
            n for n in ast.walk(tree) if id(n) in at and id(n) not in keys and (
                isinstance(n, ast.NamedExpr)
                or (isinstance(n, ast.Call) and not only_reads(n) and variables.mutable(n)
                    and not (isinstance(n.func, ast.Attribute) and id(n.func.value) in own))
            )
        ]  # fmt: skip
        early: list[tuple[Any, set[str], str]] = [
            (chain, variables.mutable(chain), "on_all") for chain in self.chains(tree)
        ]
        for one in accesses:
            outer = comprehensions_around(one.node, parents)
            read = variables.mutable(outer[-1]) if outer else variables.looks_into(one.whole)
            early.append((outer[-1] if outer else one.whole, read, one.table))
        for whole, read, table in early:
            inside = set(map(id, ast.walk(whole)))
            for effect in effects:
                if id(effect) in inside or at[id(effect)] > at.get(id(whole), len(at)):
                    continue
                sets = stores([effect]) & loads([whole])
                if sets or (read and isinstance(effect, ast.Call)):
                    shown = ast.unparse(effect)
                    self._refuse(effect, f"{table} is read after {shown}, which may change what it "
                                 "is read by: write it in a statement of its own")  # fmt: skip
        for one in accesses:
            within = set(map(id, ast.walk(one.key))) if one.key is not None else set()
            of_key = {other.table for other in accesses if id(other.node) in within}
            for other in accesses:
                before = at.get(id(other.whole), len(at)) < at.get(id(one.whole), len(at))
                if before and other.writes and other.table in of_key and id(other.node) not in keys:
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
            if isinstance(outer, ast.Attribute) and isinstance(
                call := parents.get(outer), ast.Call
            ) and call.func is outer:  # fmt: skip
                self._check_everywhere(call, outer.attr)
                outer = call
            if not isinstance(outer, ast.Call | ast.Attribute | ast.Subscript) or not isinstance(
                getattr(outer, "ctx", ast.Load()), ast.Load
            ):
                self._refuse(node, "on_all(self.x) is part of one expression that reads, as "
                             "on_all(self.x).items()")  # fmt: skip
            chains.append(outer)
        return chains

    def _check_everywhere(self, call: ast.Call, method: str) -> None:
        """Refuse an expression on all partitions that changes something."""
        if method in MUTATORS:
            self._refuse(call, f"{method} on all partitions changes the state element: give it a "
                         "Broadcast, or change the one of the call's partition")  # fmt: skip
        for node in ast.walk(call):
            own = node is call.func
            if isinstance(node, ast.Attribute) and node.attr in MUTATORS and not own:
                shown = ast.unparse(node.value)
                self._refuse(node, f"an expression on all partitions changes {shown}, of which "
                             "each has a copy: change it with what gather_all returns")  # fmt: skip
            if isinstance(node, ast.NamedExpr | ast.Lambda):
                self._refuse(node, "an expression on all partitions sets no variable, and has no "
                             "function of its own: use what gather_all returns")  # fmt: skip
