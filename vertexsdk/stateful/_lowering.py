"""A method as a list of steps, each of which accesses one state element by one key at most.

What is accessed within an expression is read into a variable beforehand, an `if` over several state
elements becomes guards of its statements, a loop whose items go to different rows a `Loop`, and an
`on_all` expression an `Everywhere`. A statement that accesses one row stays as it is written.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeAlias

from vertexsdk.program.syntax import is_docstring
from vertexsdk.stateful._accesses import (
    COMPREHENSIONS,
    DEFERRED,
    Access,
    NotByKey,
    Parents,
    access,
    in_order,
    is_consumed,
    is_pure,
    only_reads,
    parents_of,
)
from vertexsdk.stateful.elements import Matrix, StateElement

Guards: TypeAlias = tuple[tuple[str, bool], ...]
_UNDIVIDED = (ast.For, ast.While, ast.Try, ast.TryStar, ast.With, ast.Match)
_CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.If, *_UNDIVIDED, *COMPREHENSIONS)
_PARTS = (ast.Subscript, ast.Attribute, ast.FormattedValue, ast.Starred)
Refuse: TypeAlias = Callable[[ast.AST | None, str], NoReturn]
_KEEPING = {
    "dict", "enumerate", "iter", "list", "max", "min", "next", "reversed", "set", "sorted", "tuple",
    "zip",
}  # fmt: skip
_MUTATORS = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
    "popleft", "remove", "reverse", "setdefault", "sort", "update", "write",
}  # fmt: skip


class Site(NamedTuple):
    """What one step accesses.

    Attributes:
        table: the name of the state element.
        key: of the row, as text with the names' versions; None where any row may be accessed.
    """

    table: str
    key: Any


@dataclass
class Step:
    """A statement.

    Attributes:
        guards: variables that have to be true or false for it to run.
        site: what it accesses.
        key: of that.
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
        steps: of each item.
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
        place: of the task element that it becomes.
    """

    guards: Guards
    name: str
    table: str
    expression: ast.expr
    place: int = -1


def loads(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that have to have a value for trees to run."""
    names: set[str] = set()
    for node in (n for tree in nodes for n in ast.walk(tree)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def unset(tree: ast.AST) -> set[str]:
    """Return the names that a tree may leave without a value."""
    return {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)
    } | {
        n.name for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and n.name
    }  # fmt: skip


def stores(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that trees bind, but for the variables of comprehensions."""
    names: set[str] = set()
    for tree in nodes:
        hidden = {
            id(n) for c in ast.walk(tree) if isinstance(c, ast.comprehension)
            for n in ast.walk(c.target)
        }  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                names |= set() if id(node) in hidden else {node.id}
            elif isinstance(node, ast.MatchMapping):
                names |= {node.rest} if node.rest else set()
            elif isinstance(node, ast.alias):
                names.add((node.asname or node.name).partition(".")[0])
            elif isinstance(
                node,
                ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.FunctionDef | ast.ClassDef,
            ):
                names |= {node.name} if node.name else set()
    return names


def name(identifier: str) -> ast.Name:
    """Return a name that is read."""
    return ast.Name(identifier, ast.Load())


def assign(identifier: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    """Return the assignment of a value to a name."""
    made = ast.Assign([ast.Name(identifier, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(made, at))


def of_this_loop(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The statements of a loop's body, but those that belong to an inner loop or function."""
    for node in statements:
        yield node
        if isinstance(node, DEFERRED):
            continue
        inner = isinstance(node, ast.For | ast.While)
        orelse = node.orelse if isinstance(node, ast.For | ast.While) else []
        for below in of_this_loop([n for n in ast.iter_child_nodes(node) if n not in orelse]):
            if not (inner and isinstance(below, ast.Break | ast.Continue)):
                yield below
        yield from of_this_loop(orelse)


class Lowering:
    """The steps of one method.

    Args:
        elements: the state elements of the class, by name.
        self_name: what the method calls `self`.
        is_on_all: whether an expression is the function `on_all`.
        refuse: raises, with a line.
        used: names that the method has.
        kinds: the types of its parameters; None for one without an annotation.
    """

    def __init__(
        self, elements: dict[str, StateElement], self_name: str,
        is_on_all: Callable[[ast.expr], bool], refuse: Refuse, used: set[str],
        kinds: dict[str, str | None],
    ) -> None:  # fmt: skip
        self._elements, self._self, self._is_on_all = elements, self_name, is_on_all
        self._refuse = refuse
        self._used, self._kinds = set(used), kinds
        self._guards: Guards = ()  # of the statement that is looked at
        self._bound: set[str] = set()  # the variables of the method
        self._stored: set[str] = set()  # those that it sets
        self._versions: Counter[str] = Counter()
        self._steps: list[Any] = []
        self.rows: dict[str, Site] = {}  # variables that have a row of named fields
        self.row_names: set[str] = set()  # all that ever had one
        self._holders: dict[str, Site] = {}  # variables that have it within a list, say
        self._old: set[str] = set()  # of them, those whose row may be another one by now
        self._last: Site | None = None  # what was accessed last
        self._within: Loop | None = None
        self._carried: set[str] = set()
        self._shared: set[str] = set()  # of them, variables of the method
        self._go: list[str] = []  # variables that `continue` makes false
        self._divides = False  # the items of a loop have something in common

    def steps(self, statements: Sequence[ast.stmt]) -> list[Any]:
        """Return the steps of the method's statements."""
        self._stored = stores(statements)
        self._bound = set(self._kinds) | self._stored
        self._lower(statements, (), frozenset())
        return self._steps

    def fresh(self, kind: str) -> str:
        """Return a name that the method does not have."""
        k = 1
        while f"_{kind}{k}" in self._used:
            k += 1
        self._used.add(f"_{kind}{k}")
        return f"_{kind}{k}"

    # What a tree accesses

    def accesses(self, tree: ast.AST) -> list[tuple[Access, Site, set[str]]]:
        """Return the accesses of a tree in their order, with the names that their keys have and
        the tree binds; "" where the key cannot be evaluated before the tree is.
        """
        parents, found = parents_of(tree), list[tuple[Access, Site, set[str]]]()
        bound = stores([tree]) if isinstance(tree, ast.stmt) else set[str]()
        if isinstance(tree, ast.Assign | ast.AugAssign | ast.AnnAssign):
            bound = stores([tree.value]) if tree.value else set()
        for node in in_order(tree):
            if not (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == self._self
                and node.attr in self._elements
            ):
                continue
            above = list(_ancestors(node, parents))
            call = above[0] if above else None
            if isinstance(call, ast.Call) and self._is_on_all(call.func):
                continue
            one = self._access(node, parents)
            for outer in above:
                deferred = isinstance(outer, DEFERRED) and not is_consumed(outer, parents)
                if deferred and not _is_first(node, outer, parents):
                    self._refuse(node, f"a function, lambda or generator reads {node.attr} when the"
                                 " call may be over: read it first")  # fmt: skip
            local = set[str]()
            for outer in above:
                if isinstance(outer, COMPREHENSIONS) and not _is_first(node, outer, parents):
                    local |= {
                        n.id for c in outer.generators for n in ast.walk(c.target)
                        if isinstance(n, ast.Name)
                    }  # fmt: skip
            late = set[str]()
            if one.key is not None:
                late = loads([one.key]) & (bound | local)
                conditional = any(map(_is_conditional, above))
                named = isinstance(one.key, ast.Name) and isinstance(tree, _UNDIVIDED)
                if conditional and not named and not self._is_safe(one):
                    late.add("")
            found.append((one, self._site(one), late))
        return found

    def _is_safe(self, one: Access) -> bool:
        """Whether a key can be evaluated where the call may not come to its access."""
        key, last = one.key, [s for s in self._steps if isinstance(s, Step) and s.site is not None]
        if isinstance(key, ast.Constant):
            return True
        if last and last[-1].site == self._site(one) and last[-1].guards in ((), self._guards):
            return True  # it was evaluated already
        if not isinstance(key, ast.Name) or self._versions[key.id]:
            return False
        return self._kinds.get(key.id, "") in (None, self._elements[one.table].spec.key)

    def _access(self, node: ast.Attribute, parents: Any) -> Access:
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
        text = ast.dump(one.key) if self._is_pure(one.key) else id(one.key)
        return Site(one.table, (text, tuple((n, self._versions[n]) for n in names)))

    def _is_pure(self, key: ast.expr) -> bool:
        """Whether a key has the same value when it is evaluated again, wherever that is."""
        return is_pure(key) and not self._looks_into(key) and not any(
            isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
            and n.value.id == self._self and n.attr in self._elements
            for n in ast.walk(key)
        )  # fmt: skip

    def _mutable(self, tree: ast.AST) -> set[str]:
        """The variables in a tree whose objects may be changed, as far as is known."""
        return {
            n for n in loads([tree]) - {self._self}
            if n in self._bound and not (self._kinds.get(n) and n not in self._stored)
        }  # fmt: skip

    def _looks_into(self, tree: ast.AST) -> set[str]:
        """The variables of whose objects a tree reads a part, that may be changed meanwhile."""
        found = set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                of = node.func.id if isinstance(node.func, ast.Name) else ""
                looks = of not in ("abs", "float", "int", "ord", "round") and not (
                    isinstance(node.func, ast.Attribute) and is_pure(node)
                )
            else:
                looks = isinstance(node, (*_PARTS, *COMPREHENSIONS))
            if looks:
                found |= self._mutable(node)
        return found

    def _check_order(self, tree: ast.AST) -> None:
        """Refuse an expression of which a part that is read beforehand depends on a part that is
        evaluated before it.
        """
        parents, found = parents_of(tree), self.accesses(tree)
        keys = {id(n) for one, _, _ in found if one.key is not None for n in ast.walk(one.key)}
        at = {id(node): k for k, node in enumerate(_evaluated(tree))}
        effects = [
            n for n in ast.walk(tree) if id(n) in at and id(n) not in keys and (
                isinstance(n, ast.NamedExpr)
                or (isinstance(n, ast.Call) and self._changes(n) and not self._accessing(n, found))
            )
        ]  # fmt: skip
        early: list[tuple[Any, set[str], str]] = [
            (chain, self._mutable(chain), "on_all") for chain in self._chains(tree)
        ]
        for one, _, _ in found:
            outer = [
                x for x in _ancestors(one.node, parents)
                if isinstance(x, COMPREHENSIONS) and not _is_first(one.node, x, parents)
            ]  # fmt: skip
            read = self._mutable(outer[-1]) if outer else self._looks_into(one.whole)
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
        for one, _, _ in found:
            within = set(map(id, ast.walk(one.key))) if one.key is not None else set()
            of_key = {other.table for other, _, _ in found if id(other.node) in within}
            for other, _, _ in found:
                before = at.get(id(other.whole), len(at)) < at.get(id(one.whole), len(at))
                if before and other.writes and other.table in of_key and id(other.node) not in keys:
                    self._refuse(
                        one.node,
                        f"the key of {one.table} is read from {other.table} after it was changed: "
                        "read it in a statement of its own",
                    )

    def _changes(self, call: ast.Call) -> set[str]:
        """The variables whose objects a call may change."""
        return set() if only_reads(call) else self._mutable(call)

    def _accessing(self, call: ast.Call, found: list[tuple[Access, Site, set[str]]]) -> bool:
        return any(
            isinstance(call.func, ast.Attribute) and call.func.value is one.node
            for one, _, _ in found
        )

    def _row_stores(self, tree: ast.AST) -> list[Site]:
        return [
            self.rows[n.value.id] for n in ast.walk(tree)
            if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)
            and isinstance(n.value, ast.Name) and n.value.id in self.rows
        ]  # fmt: skip

    def _chains(self, tree: ast.AST) -> list[ast.expr]:
        """The `on_all` expressions of a tree."""
        parents, chains = parents_of(tree), list[ast.expr]()
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and self._is_on_all(node.func)):
                continue
            given = node.args[0] if len(node.args) == 1 else None
            if not (
                isinstance(given, ast.Attribute)
                and isinstance(given.value, ast.Name)
                and given.value.id == self._self
                and given.attr in self._elements
            ):
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
        if method in _MUTATORS:
            self._refuse(call, f"{method} on all partitions changes the state element: give it a "
                         "Broadcast, or change the one of the call's partition")  # fmt: skip
        for node in ast.walk(call):
            own = node is call.func
            if isinstance(node, ast.Attribute) and node.attr in _MUTATORS and not own:
                shown = ast.unparse(node.value)
                self._refuse(node, f"an expression on all partitions changes {shown}, of which "
                             "each has a copy: change it with what gather_all returns")  # fmt: skip
            if isinstance(node, ast.NamedExpr | ast.Lambda):
                self._refuse(node, "an expression on all partitions sets no variable, and has no "
                             "function of its own: use what gather_all returns")  # fmt: skip

    # Statements

    def _lower(self, statements: Sequence[ast.stmt], guards: Guards, after: frozenset[str]) -> None:
        for k, statement in enumerate(statements):
            rest = frozenset(after | loads(statements[k + 1 :]))
            if not (self._divides and _continues(statement)):
                self._statement(statement, guards, rest)
                continue
            go = self.fresh("go")
            self._emit(assign(go, ast.Constant(True), statement), guards)
            self._go.append(go)
            self._statement(statement, guards, rest)
            self._go.remove(go)
            guards = (*guards, (go, True))

    def _statement(self, node: ast.stmt, guards: Guards, after: frozenset[str]) -> None:
        if is_docstring(node) or isinstance(node, ast.Pass):
            return
        if self._divides and isinstance(node, ast.Continue):
            for go in self._go:
                self._emit(assign(go, ast.Constant(False), node), guards)
            return
        self._guards = guards
        found = self.accesses(node)
        sites = {site for _, site, _ in found} | set(self._row_stores(node))
        missing = [one for one, _, names in found if names]
        touched = bool(found) and self._touches(node)
        if not (
            len(sites) > 1 or missing or self._chains(node) or touched
            or (self._divides and _continues(node))
        ):  # fmt: skip
            self._emit(node, guards)
        elif isinstance(node, ast.If):
            guard = self.fresh("guard")
            test = self._lifted(node.test, guards, None)
            self._emit(assign(guard, test, node.test), guards)
            self._lower(node.body, (*guards, (guard, True)), after)
            self._lower(node.orelse, (*guards, (guard, False)), after)
        elif isinstance(node, ast.For):
            self._for(node, guards, after)
        elif isinstance(
            node, ast.While | ast.Try | ast.With | ast.Match | ast.TryStar | ast.FunctionDef
        ):
            kind = type(node).__name__.lower()
            self._refuse(node, f"a {kind} over several state elements or keys cannot be divided: "
                         "access one row in it, and the others before it or after it")  # fmt: skip
        else:
            self._simple(node, guards)

    def _touches(self, node: ast.AST) -> bool:
        """Whether a statement sees or changes what the items of a loop have in common."""
        return bool(self._carried & (loads([node]) | stores([node]) | mutated(node)))

    def _simple(self, node: ast.stmt, guards: Guards) -> None:
        """Split a statement that is not compound."""
        if isinstance(node, ast.Delete) and len(node.targets) > 1:
            for target in node.targets:
                self._statement(ast.copy_location(ast.Delete([target]), node), guards, frozenset())
            return
        if isinstance(node, ast.Assign) and len(node.targets) > 1:
            value = self.fresh("value")
            self._statement(assign(value, node.value, node), guards, frozenset({value}))
            for target in node.targets:
                made = ast.copy_location(ast.Assign([target], name(value)), node)
                self._statement(ast.fix_missing_locations(made), guards, frozenset())
            return
        node = copy.deepcopy(node)
        self._check_order(node)
        for one, _, late in self.accesses(node):  # a key that is computed is computed once
            if one.key is not None and not late and not self._is_pure(one.key):
                variable = self.fresh("key")
                given = assign(variable, one.key, node)
                self._statement(given, guards, frozenset({variable}))
                self._statement(_replaced(node, one.key, name(variable)), guards, frozenset())
                return
        targets = _targets(node)
        inside = {id(n) for target in targets for n in ast.walk(target)}
        found = self.accesses(node)
        written = [site for one, site, _ in found if id(one.node) in inside and one.writes]
        written += [site for target in targets for site in self._row_stores(target)]
        if len(set(written)) > 1:
            self._refuse(node, "it sets rows of several state elements or keys: set one after the "
                         "other")  # fmt: skip
        if self._touches(node):
            if written or any(one.writes for one, _, _ in found):
                self._refuse_common(node, self._carried)
            main = None
        else:
            free = [site for _, site, names in found if not names]
            main = written[0] if written else (free[-1] if free else None)
        self._emit(self._lifted(node, guards, main), guards)

    def _lifted(self, tree: Any, guards: Guards, main: Site | None) -> Any:
        """Return a tree whose accesses but those of one site are read into variables before it."""
        self._check_order(tree)
        tree = copy.deepcopy(tree)
        wanted = set(map(id, self._chains(tree)))
        chains = set(wanted)
        parents = parents_of(tree)
        found = self.accesses(tree)
        at = {id(n): k for k, n in enumerate(_evaluated(tree))}
        targets = {id(n) for target in _targets(tree) for n in ast.walk(target)}
        later = [
            (at.get(id(one.whole), len(at)), one.table, one.writes)
            for one, site, names in found
            if (site != main or names) and id(one.node) not in targets
        ]
        later += [
            (at.get(id(chain), len(at)), n.attr, False)
            for chain in self._chains(tree) for n in ast.walk(chain)
            if isinstance(n, ast.Attribute) and n.attr in self._elements
        ]  # fmt: skip
        for one, site, names in found:
            if site == main and not names:
                is_target = id(one.node) in targets
                place = at.get(id(one.whole), 0)
                if not any(
                    place < k and one.table == table and (writes or (one.writes and not is_target))
                    for k, table, writes in later
                ):
                    continue
                if is_target:
                    self._refuse(one.node, f"{one.table} is changed by what is added to it: read "
                                 "that in a statement of its own, before it")  # fmt: skip
            outer = [
                x for x in _ancestors(one.node, parents)
                if isinstance(x, COMPREHENSIONS) and not _is_first(one.node, x, parents)
            ]  # fmt: skip
            if outer and (names or one.writes or self._is_of_items(one, outer[-1], parents)):
                wanted.add(id(outer[-1]))
            elif names - {""}:
                self._refuse(one.node, f"the key of {one.table} is set in the same expression: set "
                             "it in a statement of its own")  # fmt: skip
            else:
                wanted.add(id(one.whole))
        return self._lift(tree, guards, wanted, chains)

    def _is_of_items(self, one: Access, outer: Any, parents: Parents) -> bool:
        """Whether an access depends on the items of a comprehension, but for its key: on their
        values, or on what of each item is evaluated.
        """
        local = {
            n.id for c in ast.walk(outer) if isinstance(c, ast.comprehension)
            for n in ast.walk(c.target) if isinstance(n, ast.Name)
        }  # fmt: skip
        above = list(_ancestors(one.whole, parents))
        within = above[: above.index(outer)]
        return bool(loads([one.whole]) & local) or any(
            _is_conditional(n) and not isinstance(n, COMPREHENSIONS) for n in within
        )

    def _lift(self, node: Any, guards: Guards, wanted: set[int], chains: set[int]) -> Any:
        if not any(id(n) in wanted for n in ast.walk(node)):
            return node
        at = node
        if isinstance(node, ast.IfExp):
            guard, value = self.fresh("guard"), self.fresh("value")
            self._emit(assign(guard, self._lift(node.test, guards, wanted, chains), at), guards)
            for part, holds in ((node.body, True), (node.orelse, False)):
                inner = (*guards, (guard, holds))
                self._emit(assign(value, self._lift(part, inner, wanted, chains), at), inner)
            return name(value)
        if isinstance(node, ast.BoolOp):
            value, inner = self.fresh("value"), guards
            for k, part in enumerate(node.values):
                self._emit(assign(value, self._lift(part, inner, wanted, chains), at), inner)
                if k < len(node.values) - 1:
                    guard = self.fresh("guard")
                    self._emit(assign(guard, name(value), at), inner)
                    inner = (*inner, (guard, isinstance(node.op, ast.And)))
            return name(value)
        if isinstance(node, ast.Compare) and _is_conditional(node):
            value, left, inner = self.fresh("value"), node.left, guards
            for k, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
                one, other = self.fresh("left"), self.fresh("right")
                self._emit(assign(one, self._lift(left, inner, wanted, chains), at), inner)
                self._emit(assign(other, self._lift(right, inner, wanted, chains), at), inner)
                compared = ast.Compare(name(one), [op], [name(other)])
                self._emit(assign(value, compared, at), inner)
                left = name(other)
                if k < len(node.ops) - 1:
                    guard = self.fresh("guard")
                    self._emit(assign(guard, name(value), at), inner)
                    inner = (*inner, (guard, True))
            return name(value)
        if isinstance(node, COMPREHENSIONS) and id(node) in wanted:
            return self._comprehension(node, guards)
        if isinstance(node, ast.Call):
            self._check_short(node, wanted)
        fields = list(ast.iter_fields(node))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            fields.sort(key=lambda pair: pair[0] != "value")
        for of, inside in fields:
            if isinstance(inside, list):
                lifted = [
                    self._lift(v, guards, wanted, chains) if isinstance(v, ast.AST) else v
                    for v in inside
                ]
                setattr(node, of, lifted)
            elif isinstance(inside, ast.AST):
                setattr(node, of, self._lift(inside, guards, wanted, chains))
        if id(node) in chains:
            variable = self.fresh("partial")
            self._everywhere(node, guards, variable)
            return name(variable)
        if id(node) in wanted:
            variable = self.fresh("read")
            self._emit(assign(variable, node, at), guards)
            return name(variable)
        return node

    def _check_short(self, call: ast.Call, wanted: set[int]) -> None:
        """Refuse any() and all() of rows, which end early."""
        named = isinstance(call.func, ast.Name) and call.func.id in ("any", "all")
        given = call.args[0] if named and call.args else None
        if isinstance(given, ast.GeneratorExp) and id(given) in wanted:
            shown = ast.unparse(call.func)
            self._refuse(call, f"{shown}() ends at the first item that decides, and all items go "
                         f"to their rows at once: give it a list, {shown}([...])")  # fmt: skip

    def _everywhere(self, node: ast.expr, guards: Guards, variable: str) -> None:
        if self._within is not None:
            self._refuse(node, "on_all in a loop over rows asks all partitions for each item: ask "
                         "them once, before the loop")  # fmt: skip
        call = next(
            n for n in ast.walk(node) if isinstance(n, ast.Call) and self._is_on_all(n.func)
        )
        element = call.args[0]
        assert isinstance(element, ast.Attribute)
        for k, given in enumerate(node.args if isinstance(node, ast.Call) else ()):
            if any(isinstance(n, ast.Call) for n in ast.walk(given)):  # is called once
                argument = self.fresh("argument")
                self._emit(assign(argument, given, node), guards)
                node.args[k] = name(argument)  # type: ignore[attr-defined]
        for outer in ast.walk(node):
            for part, value in ast.iter_fields(outer):
                if value is call:
                    setattr(outer, part, element)
        self._steps.append(Everywhere(guards, variable, element.attr, node))
        self._versions[variable] += 1

    def _comprehension(self, node: Any, guards: Guards) -> ast.expr:
        """Return the name of a list that a loop fills."""
        if len(node.generators) > 1 or node.generators[0].is_async:
            self._refuse(node, "a comprehension with several for reads rows: write the loops out")
        generator = node.generators[0]
        names = {
            n.id: self.fresh("item") for n in ast.walk(generator.target) if isinstance(n, ast.Name)
        }
        for part in [generator.target, *generator.ifs, *_element(node)]:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Name) and inner.id in names:
                    inner.id = names[inner.id]
                elif isinstance(inner, ast.arg) and inner.arg in names:  # of a lambda
                    inner.arg = names[inner.arg]
        values = self.fresh("values")
        parts = _element(node)
        item = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
        value = self.fresh("value")
        append = ast.Call(ast.Attribute(name(values), "append", ast.Load()), [name(value)], [])
        body: list[ast.stmt] = [assign(value, item, node), ast.Expr(append)]
        if generator.ifs:
            tests = generator.ifs
            test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
            body = [ast.If(test, body, [])]
        loop = ast.For(generator.target, generator.iter, body, [])
        for inner in ast.walk(loop):
            if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
                ast.copy_location(inner, node)
        begin = assign(values, ast.List([], ast.Load()), node)
        self._lower([begin, loop], guards, frozenset({values}))
        if isinstance(node, ast.SetComp):
            return ast.Set([ast.Starred(name(values), ast.Load())])
        if isinstance(node, ast.DictComp):
            pair = [self.fresh("key"), self.fresh("value")]
            target = ast.Tuple([ast.Name(n, ast.Store()) for n in pair], ast.Store())
            over = ast.comprehension(target, name(values), [], 0)
            return ast.DictComp(name(pair[0]), name(pair[1]), [over])
        return name(values)

    def _for(self, node: ast.For, guards: Guards, after: frozenset[str]) -> None:
        over = self._lifted(node.iter, guards, None)
        loop = ast.For(node.target, over, node.body, node.orelse)
        loop = ast.copy_location(loop, node)
        found = self.accesses(loop)
        sites = {site for _, site, _ in found} | set(self._row_stores(loop))
        missing = [one for one, _, names in found if names]
        if len(sites) <= 1 and not missing and not self._chains(loop) and not self._touches(loop):
            self._emit(loop, guards)
            return
        at = missing[0].node if missing else node
        if self._within is not None:
            if self._touches(loop):
                self._refuse_common(found[0][0].node, self._carried)
            self._refuse(node, "a loop over rows within a loop over rows: make it one loop, over "
                         "pairs of both items")  # fmt: skip
        if node.orelse:
            self._refuse(node, "a loop over rows has no else: write it after the loop")
        for inner in of_this_loop(node.body):
            if isinstance(inner, ast.Break | ast.Return):
                self._refuse(inner, "all items of the loop go to their rows at once: it cannot end "
                             "early")  # fmt: skip
        for outer in ast.walk(node.target):
            if not isinstance(outer, ast.Name | ast.Tuple | ast.List | ast.expr_context):
                self._refuse(node, "the variable of a loop over rows is a name")
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(over)):
            variable = self.fresh("over")
            self._emit(assign(variable, over, node), guards)
            loop.iter = name(variable)
        self._rows(loop, guards, after, at)

    def _rows(self, loop: ast.For, guards: Guards, after: frozenset[str], at: ast.AST) -> None:
        """Add a loop whose items are rows."""
        items = stores([loop.target])
        stored = stores(loop.body)
        stale = set[str]()
        _stale(loop.body, stored, set(items), stale)
        carried = (stored & after) | stale
        changed = set[str]().union(*map(mutated, loop.body), *map(self._may_change, loop.body))
        changed |= self._second_names(loop.body, changed)
        carried |= changed - (stored - carried) - items
        carried -= {self._self} | set(self.rows)
        clash = carried & items
        if clash:
            self._refuse(loop, f"it changes {', '.join(sorted(clash))}, the variable of the loop: "
                         "use another one")  # fmt: skip
        made = Loop(guards, loop.iter, loop.target)
        before, self._steps = self._steps, []
        home = bool(carried)
        self._within, self._carried = made, carried
        self._shared = carried & self._bound
        self._divides = home
        for item in items:
            self._versions[item] += 1
        self._lower(loop.body, (), frozenset())
        steps, self._steps = self._steps, before
        self._within, self._carried, self._divides = None, set(), False
        own, common = self._divided(steps, carried, at)
        self._check_items(own)
        made.steps = own
        if home or items & after:
            read = loads(s.statement for s in common) | {n for s in common for n, _ in s.guards}
            bound = items | stores(s.statement for s in own)
            made.names = sorted((read & bound) | (items & after))
        self._steps.append(made)
        if made.names or common:
            body = [under(s.guards, s.statement) for s in common] or [ast.Pass()]
            target = ast.Tuple([ast.Name(n, ast.Store()) for n in made.names], ast.Store())
            each = ast.For(target, name("_results"), body, [])
            each = ast.fix_missing_locations(ast.copy_location(each, loop))
            self._emit(each, guards)

    def _check_items(self, steps: list[Step]) -> None:
        """Refuse items that come to a state element twice: all come to it before any goes on."""
        runs = [s for s in steps if s.site is not None]
        runs = [s for k, s in enumerate(runs) if not k or s.site != runs[k - 1].site]
        written = {s.site.table for s in steps if s.site is not None and s.writes}
        seen = set[str]()
        for step in runs:
            assert step.site is not None
            table = step.site.table
            if table in seen & written:
                self._refuse(step.statement, f"all items come to {table} before any comes to it "
                             "again, so one may not see what the item before wrote: access it "
                             "once for each item, by one key, or in two loops")  # fmt: skip
            seen.add(table)

    def _may_change(self, tree: ast.AST) -> set[str]:
        """The variables whose objects calls may change, as heappush(heap, item) does."""
        names = set[str]()
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or only_reads(node):
                continue
            of = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            if isinstance(of, ast.Attribute) and _root(of) == self._self:
                continue  # of a state element
            names |= loads([*node.args, *(k.value for k in node.keywords)])
            if isinstance(node.func, ast.Attribute):
                names |= {_root(node.func.value)}
            elif isinstance(node.func, ast.Name) and node.func.id in self._bound:
                self._refuse(node, f"{node.func.id} is a variable, and may change what all items "
                             "have in common: call the function or method by its name")  # fmt: skip
        return {n for n in names if n in self._bound and not self._kinds.get(n)}

    def _second_names(self, body: Sequence[ast.stmt], changed: set[str]) -> set[str]:
        """The variables of which those that are changed are a part, or another name."""
        pairs: list[tuple[ast.AST, ast.AST]] = []
        for node in (n for statement in body for n in ast.walk(statement)):
            if isinstance(node, ast.Assign):
                pairs += [(target, node.value) for target in node.targets]
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                pairs.append((node.target, node.value))
            elif isinstance(node, ast.For):
                pairs.append((node.target, node.iter))
        found = set(changed)
        for _ in pairs:
            for target, value in pairs:
                copied = (
                    isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
                    and only_reads(value)
                )  # fmt: skip
                if found & stores([target]) and not copied:
                    found |= {n for n in self._mutable(value) if n not in self.rows}
        return found - changed

    def _divided(
        self, steps: list[Any], carried: set[str], at: ast.AST
    ) -> tuple[list[Step], list[Step]]:
        """Divide a loop's steps into those of each item, and those that items have in common."""
        carried, own, common = set(carried), list[Step](), list[Step]()
        for step in steps:
            tree = step.statement
            if carried & (loads([tree]) | stores([tree]) | mutated(tree)) or any(
                guard in carried for guard, _ in step.guards
            ):
                if step.site is not None:
                    read = loads([tree]) | {guard for guard, _ in step.guards}
                    self._refuse_common(tree, carried & read or carried)
                carried |= stores([tree])
                common.append(step)
            else:
                own.append(step)
        return own, common

    def _refuse_common(self, node: ast.AST, names: set[str]) -> NoReturn:
        names = {n for n in names if n in self._bound} or self._shared or {"results"}
        shown = ", ".join(sorted(names))
        self._refuse(
            node,
            f"an item may see the {shown} of the item before, so it cannot go to its "
            "row by itself: set it first for every item, or collect the items in a list",
        )

    def _emit(self, node: ast.stmt, guards: Guards) -> None:
        """Add a statement that accesses one row at most."""
        found = self.accesses(node)
        for one, _, _ in found:  # a key that is computed is computed once
            if one.key is not None and not self._is_pure(one.key):
                self._check_order(node)
                variable = self.fresh("key")
                self._emit(assign(variable, copy.deepcopy(one.key), node), guards)
                node = _replaced(node, one.key, name(variable))
                self._emit(node, guards)
                return
        step = Step(node, guards)
        if found:
            step.site, step.key = found[0][1], found[0][0].key
            step.writes = any(one.writes for one, _, _ in found)
        rows = self._row_stores(node)
        if rows:
            step.site, step.writes = rows[0], True
        for row in sorted(loads([node]) & self._old):
            table = (self.rows.get(row) or self._holders[row]).table
            shown = row if row in self._bound else "the row"
            self._refuse(node, f"{shown} is a copy here, as {table} is accessed again before: "
                         "read its fields first")  # fmt: skip
        bound, held = self._rows_bound(node, found)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute) and not isinstance(inner.ctx, ast.Load):
                of = inner.value
                known = isinstance(of, ast.Name) and (of.id in self.rows or of.id in bound)
                if not known and loads([of]) & (set(self._holders) | set(held)):
                    self._refuse(inner, f"{ast.unparse(of)} may be a copy of its row: set the "
                                 "fields of row, where row = self.x[key]")  # fmt: skip
        if step.site is not None and step.site != self._last:
            self._last = step.site
            having = [*self.rows.items(), *self._holders.items()]
            self._old |= {row for row, of in having if of.table == step.site.table}
        self._steps.append(step)
        either = {row for row, of in bound.items() if guards and self.rows.get(row, of) != of}
        for stored in stores([node]):
            self._versions[stored] += 1
            self.rows.pop(stored, None)
            self._holders.pop(stored, None)
            self._old.discard(stored)
        self.rows |= bound
        self.row_names |= set(bound)
        self._holders |= held
        self._old |= either  # the row of one key or of another

    def _rows_bound(
        self, node: ast.AST, found: list[tuple[Access, Site, set[str]]]
    ) -> tuple[dict[str, Site], dict[str, Site]]:
        """Return the variables that a statement binds to rows, and to what rows are in."""
        sites = {
            id(one.whole): site for one, site, _ in found
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
                names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                held.update(dict.fromkeys(names - {self._self}, site))

        for inner in in_order(node):
            if isinstance(inner, ast.Assign):
                for target in inner.targets:
                    bind(target, inner.value)
            elif isinstance(inner, ast.AnnAssign | ast.NamedExpr | ast.AugAssign) and inner.value:
                bind(inner.target, inner.value)
            elif isinstance(inner, ast.For | ast.comprehension):
                bind(inner.target, ast.List([inner.iter], ast.Load()))
            elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                if inner.func.attr in _MUTATORS:
                    bind(inner.func.value, ast.List(inner.args, ast.Load()))
        return bound, held


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


def _ancestors(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in parents:
        node = parents[node]
        yield node


def _is_first(node: ast.AST, outer: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a node is in what a comprehension runs over first, which is evaluated outside."""
    if not isinstance(outer, COMPREHENSIONS):
        return False
    first = outer.generators[0].iter
    return node is first or first in _ancestors(node, parents)


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree in the order in which Python has evaluated them."""
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        children.sort(key=lambda child: child is not node.value)
    elif isinstance(node, COMPREHENSIONS):
        children.sort(key=lambda child: not isinstance(child, ast.comprehension))
    elif isinstance(node, ast.Lambda):
        children = []
    elif isinstance(node, ast.IfExp):
        children = [node.test, node.body, node.orelse]
    for child in children:
        yield from _evaluated(child)
    yield node


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def _element(node: Any) -> list[ast.expr]:
    return [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]


def _is_conditional(node: ast.AST) -> bool:
    """Whether parts of a node are evaluated or not: a chain of comparisons ends where one fails."""
    return isinstance(node, _CONDITIONAL) or (isinstance(node, ast.Compare) and len(node.ops) > 1)


def _continues(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Continue) for n in of_this_loop([node]))


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def mutated(tree: ast.AST) -> set[str]:
    """The names of objects that a tree changes."""
    return set[str]().union(*map(mutated_here, ast.walk(tree)))


def mutated_here(node: ast.AST) -> set[str]:
    """The name of the object that a node itself changes."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return {_root(node)} - {""}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return {_root(node.func.value)} - {""} if node.func.attr in _MUTATORS else set()
    return set()


def _replaced(tree: ast.stmt, old: ast.AST, new: ast.expr) -> ast.stmt:
    for node in ast.walk(tree):
        for part, value in ast.iter_fields(node):
            if value is old:
                setattr(node, part, ast.copy_location(new, old))
            elif isinstance(value, list) and any(v is old for v in value):
                setattr(node, part, [new if v is old else v for v in value])
    return ast.fix_missing_locations(tree)


def _stale(
    statements: Iterable[ast.stmt], names: set[str], bound: set[str], found: set[str]
) -> set[str]:
    """Collect variables that may have their value from the item before; return those bound."""
    for node in statements:
        if isinstance(node, ast.If):
            _stale_names(node.test, names, bound, found)
            branches = [_stale(x, names, set(bound), found) for x in (node.body, node.orelse)]
            ends = [bool(x) and isinstance(x[-1], ast.Continue) for x in (node.body, node.orelse)]
            branches = [b for b, end in zip(branches, ends, strict=True) if not end]
            bound = bound | (set.intersection(*branches) if branches else set())
        elif isinstance(node, ast.For):
            _stale_names(node.iter, names, bound, found)
            inner = bound | {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
            _stale(node.body, names, inner, found)
            _stale(node.orelse, names, bound, found)  # where it runs over nothing
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            _stale_names(node.value, names, bound, found)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                _stale_names(target, names, bound, found)
                parts = [n for n in ast.walk(target) if isinstance(n, ast.Name)]
                bound = bound | {n.id for n in parts if isinstance(n.ctx, ast.Store)}
        else:
            _stale_names(node, names, bound, found)
    return bound


def _stale_names(within: ast.AST, names: set[str], bound: set[str], found: set[str]) -> None:
    local = {
        n.id for c in ast.walk(within) if isinstance(c, ast.comprehension)
        for n in ast.walk(c.target) if isinstance(n, ast.Name)
    }  # fmt: skip
    found |= loads([within]) & (names - bound - local)
