"""A method as a list of steps, each of which accesses one state element by one key at most.

What is accessed within an expression is read into a variable beforehand, an `if` over several state
elements becomes guards of its statements, a loop whose items go to different rows a `Loop`, and an
`on_all` expression an `Everywhere`. A statement that accesses one row stays as it is written.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from vertexsdk.program.syntax import is_docstring
from vertexsdk.stateful._accesses import Access, Accesses
from vertexsdk.stateful._expressions import (
    COMPREHENSIONS,
    Parents,
    ancestors,
    comprehensions_around,
    elements_of,
    evaluated,
    in_order,
    is_conditional,
    of_this_loop,
    parents_of,
    replaced,
    targets_of,
)
from vertexsdk.stateful._names import (
    MUTATORS,
    Refuse,
    Variables,
    assign,
    loads,
    local_names,
    mutated,
    name,
    names_in,
    stale,
    stores,
)
from vertexsdk.stateful._steps import Everywhere, Guards, Loop, Site, Step, under
from vertexsdk.stateful.placement import Placement


class Lowering:
    """The steps of one method.

    Args:
        elements: the state elements of the class, by name.
        variables: the method's variables.
        is_on_all: tells whether an expression is the function `on_all`.
        refuse: raises, with a line.
    """

    def __init__(
        self, elements: dict[str, Placement], variables: Variables,
        is_on_all: Callable[[ast.expr], bool], refuse: Refuse,
    ) -> None:  # fmt: skip
        self._elements, self._variables, self._refuse = elements, variables, refuse
        self._accesses = Accesses(elements, variables, is_on_all, refuse, self._evaluated)
        self._row = RowVariables(variables, refuse)
        self._fresh = variables.fresh
        self._guards: Guards = ()  # of the statement that is looked at
        self._steps: list[Any] = []
        self._within: Loop | None = None
        self._carried: set[str] = set()
        self._shared: set[str] = set()  # of them, variables of the method
        self._go: list[str] = []  # variables that `continue` makes false
        self._divides = False  # the items of a loop have something in common

    @property
    def row_names(self) -> set[str]:
        """The variables that have a row of named fields at some time."""
        return self._row.ever

    def steps(self, statements: Sequence[ast.stmt]) -> list[Any]:
        """Return the steps of the method's statements."""
        self._variables.add(statements)
        self._lower(statements, (), frozenset())
        return self._steps

    def _evaluated(self) -> Site | None:
        """Return the row that was accessed last, if that is so wherever the call comes here."""
        steps = (s for s in reversed(self._steps) if isinstance(s, Step) and s.site is not None)
        last = next(steps, None)
        return last.site if last is not None and last.guards in ((), self._guards) else None

    # Statements

    def _lower(self, statements: Sequence[ast.stmt], guards: Guards, after: frozenset[str]) -> None:
        for k, statement in enumerate(statements):
            rest = frozenset(after | loads(statements[k + 1 :]))
            if not (self._divides and _continues(statement)):
                self._statement(statement, guards, rest)
                continue
            go = self._fresh("go")
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
        accesses = self._accesses(node)
        if not (
            self._is_divided(node, accesses) or (accesses and self._touches(node))
            or (self._divides and _continues(node))
        ):  # fmt: skip
            self._emit(node, guards)
        elif isinstance(node, ast.If):
            guard = self._fresh("guard")
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

    def _is_divided(self, node: ast.AST, accesses: Sequence[Access]) -> bool:
        """Return whether a statement accesses several rows, or one that is not known before."""
        sites = {one.site for one in accesses} | set(self._row.sets(node))
        late = any(one.late for one in accesses)
        return len(sites) > 1 or late or bool(self._accesses.chains(node))

    def _touches(self, node: ast.AST) -> bool:
        """Return whether a statement sees or changes what the items of a loop have in common."""
        return bool(self._carried & (loads([node]) | stores([node]) | mutated(node)))

    def _simple(self, node: ast.stmt, guards: Guards) -> None:
        """Split a statement that is not compound."""
        if isinstance(node, ast.Delete) and len(node.targets) > 1:
            for target in node.targets:
                self._statement(ast.copy_location(ast.Delete([target]), node), guards, frozenset())
            return
        if isinstance(node, ast.Assign) and len(node.targets) > 1:
            value = self._fresh("value")
            self._statement(assign(value, node.value, node), guards, frozenset({value}))
            for target in node.targets:
                made = ast.copy_location(ast.Assign([target], name(value)), node)
                self._statement(ast.fix_missing_locations(made), guards, frozenset())
            return
        node = copy.deepcopy(node)
        self._accesses.check_order(node)
        for one in self._accesses(node):  # a key that is computed is computed once
            if one.key is not None and not one.late and not self._accesses.is_pure(one.key):
                variable = self._fresh("key")
                given = assign(variable, one.key, node)
                self._statement(given, guards, frozenset({variable}))
                self._statement(replaced(node, one.key, name(variable)), guards, frozenset())
                return
        targets = targets_of(node)
        inside = {id(n) for target in targets for n in ast.walk(target)}
        accesses = self._accesses(node)
        written = [one.site for one in accesses if id(one.node) in inside and one.writes]
        written += [site for target in targets for site in self._row.sets(target)]
        if len(set(written)) > 1:
            self._refuse(node, "it sets rows of several state elements or keys: set one after the "
                         "other")  # fmt: skip
        if self._touches(node):
            if written or any(one.writes for one in accesses):
                self._refuse_common(node, self._carried)
            main = None
        else:
            free = [one.site for one in accesses if not one.late]
            main = written[0] if written else (free[-1] if free else None)
        self._emit(self._lifted(node, guards, main), guards)

    def _lifted(self, tree: Any, guards: Guards, main: Site | None) -> Any:
        """Return a tree whose accesses but those of one site are read into variables before it."""
        self._accesses.check_order(tree)
        tree = copy.deepcopy(tree)
        wanted = set(map(id, self._accesses.chains(tree)))
        chains = set(wanted)
        parents = parents_of(tree)
        at = {id(n): k for k, n in enumerate(evaluated(tree))}
        targets = {id(n) for target in targets_of(tree) for n in ast.walk(target)}
        kept, moved = list[Access](), list[Access]()
        for one in self._accesses(tree):
            (kept if one.site == main and not one.late else moved).append(one)
        later = [
            (at.get(id(one.expression), len(at)), one.table, one.writes)
            for one in moved if id(one.node) not in targets
        ] + [
            (at.get(id(chain), len(at)), n.attr, False)
            for chain in self._accesses.chains(tree) for n in ast.walk(chain)
            if isinstance(n, ast.Attribute) and n.attr in self._elements
        ]  # fmt: skip
        for one in kept:
            is_target, place = id(one.node) in targets, at.get(id(one.expression), 0)
            if any(
                place < k and one.table == table and (writes or (one.writes and not is_target))
                for k, table, writes in later
            ):
                if is_target:
                    self._refuse(one.node, f"{one.table} is changed by what is added to it: read "
                                 "that in a statement of its own, before it")  # fmt: skip
                moved.append(one)
        for one in moved:
            outer = comprehensions_around(one.node, parents)
            if outer and (one.late or one.writes or self._is_of_items(one, outer[-1], parents)):
                wanted.add(id(outer[-1]))
            elif one.late - {""}:
                self._refuse(one.node, f"the key of {one.table} is set in the same expression: set "
                             "it in a statement of its own")  # fmt: skip
            else:
                wanted.add(id(one.expression))
        return self._lift(tree, guards, wanted, chains)

    def _is_of_items(self, one: Access, outer: Any, parents: Parents) -> bool:
        """Return whether an access depends on the items of a comprehension, but for its key: on
        their values, or on what of each item is evaluated.
        """
        above = list(ancestors(one.expression, parents))
        within = above[: above.index(outer)]
        return bool(loads([one.expression]) & local_names(outer)) or any(
            is_conditional(n) and not isinstance(n, COMPREHENSIONS) for n in within
        )

    def _lift(self, node: Any, guards: Guards, wanted: set[int], chains: set[int]) -> Any:
        if not any(id(n) in wanted for n in ast.walk(node)):
            return node
        at = node
        if isinstance(node, ast.IfExp):
            guard, value = self._fresh("guard"), self._fresh("value")
            self._emit(assign(guard, self._lift(node.test, guards, wanted, chains), at), guards)
            for part, holds in ((node.body, True), (node.orelse, False)):
                inner = (*guards, (guard, holds))
                self._emit(assign(value, self._lift(part, inner, wanted, chains), at), inner)
            return name(value)
        if isinstance(node, ast.BoolOp):
            value, inner = self._fresh("value"), guards
            for k, part in enumerate(node.values):
                self._emit(assign(value, self._lift(part, inner, wanted, chains), at), inner)
                if k < len(node.values) - 1:
                    guard = self._fresh("guard")
                    self._emit(assign(guard, name(value), at), inner)
                    inner = (*inner, (guard, isinstance(node.op, ast.And)))
            return name(value)
        if isinstance(node, ast.Compare) and is_conditional(node):
            value, left, inner = self._fresh("value"), node.left, guards
            for k, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
                one, other = self._fresh("left"), self._fresh("right")
                self._emit(assign(one, self._lift(left, inner, wanted, chains), at), inner)
                self._emit(assign(other, self._lift(right, inner, wanted, chains), at), inner)
                compared = ast.Compare(name(one), [op], [name(other)])
                self._emit(assign(value, compared, at), inner)
                left = name(other)
                if k < len(node.ops) - 1:
                    guard = self._fresh("guard")
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
            variable = self._fresh("partial")
            self._everywhere(node, guards, variable)
            return name(variable)
        if id(node) in wanted:
            variable = self._fresh("read")
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
        call = self._accesses.on_all_calls(node)[0]
        element = call.args[0]
        assert isinstance(element, ast.Attribute)
        for k, given in enumerate(node.args if isinstance(node, ast.Call) else ()):
            if any(isinstance(n, ast.Call) for n in ast.walk(given)):  # is called once
                argument = self._fresh("argument")
                self._emit(assign(argument, given, node), guards)
                node.args[k] = name(argument)  # type: ignore[attr-defined]
        for outer in ast.walk(node):
            for part, value in ast.iter_fields(outer):
                if value is call:
                    setattr(outer, part, element)
        self._steps.append(Everywhere(guards, variable, element.attr, node))
        self._variables.versions[variable] += 1

    def _comprehension(self, node: Any, guards: Guards) -> ast.expr:
        """Return the name of a list that a loop fills."""
        if len(node.generators) > 1 or node.generators[0].is_async:
            self._refuse(node, "a comprehension with several for reads rows: write the loops out")
        generator = node.generators[0]
        names = {n: self._fresh("item") for n in sorted(names_in(generator.target))}
        for part in [generator.target, *generator.ifs, *elements_of(node)]:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Name) and inner.id in names:
                    inner.id = names[inner.id]
                elif isinstance(inner, ast.arg) and inner.arg in names:  # of a lambda
                    inner.arg = names[inner.arg]
        values = self._fresh("values")
        parts = elements_of(node)
        item = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
        value = self._fresh("value")
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
            pair = [self._fresh("key"), self._fresh("value")]
            target = ast.Tuple([ast.Name(n, ast.Store()) for n in pair], ast.Store())
            over = ast.comprehension(target, name(values), [], 0)
            return ast.DictComp(name(pair[0]), name(pair[1]), [over])
        return name(values)

    def _for(self, node: ast.For, guards: Guards, after: frozenset[str]) -> None:
        over = self._lifted(node.iter, guards, None)
        loop = ast.For(node.target, over, node.body, node.orelse)
        loop = ast.copy_location(loop, node)
        accesses = self._accesses(loop)
        if not self._is_divided(loop, accesses) and not self._touches(loop):
            self._emit(loop, guards)
            return
        if self._within is not None:
            if self._touches(loop):
                self._refuse_common(accesses[0].node, self._carried)
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
            variable = self._fresh("over")
            self._emit(assign(variable, over, node), guards)
            loop.iter = name(variable)
        self._rows(loop, guards, after)

    def _rows(self, loop: ast.For, guards: Guards, after: frozenset[str]) -> None:
        """Add a loop whose items are rows."""
        variables, items, stored = self._variables, stores([loop.target]), stores(loop.body)
        before_it = set[str]()
        stale(loop.body, stored, set(items), before_it)
        carried = (stored & after) | before_it
        changed = set[str]().union(
            *map(mutated, loop.body), *map(variables.changed_by_calls, loop.body)
        )
        changed |= variables.second_names(loop.body, changed, self._row.rows)
        carried |= changed - (stored - carried) - items
        carried -= {variables.self_name} | set(self._row.rows)
        clash = carried & items
        if clash:
            self._refuse(loop, f"it changes {', '.join(sorted(clash))}, the variable of the loop: "
                         "use another one")  # fmt: skip
        made = Loop(guards, loop.iter, loop.target)
        outer_steps, self._steps = self._steps, []
        home = bool(carried)
        self._within, self._carried = made, carried
        self._shared = carried & variables.bound
        self._divides = home
        variables.versions.update(items)
        self._lower(loop.body, (), frozenset())
        steps, self._steps = self._steps, outer_steps
        self._within, self._carried, self._divides = None, set(), False
        item_steps, common = self._divided(steps, carried)
        self._check_items(item_steps)
        made.steps = item_steps
        if home or items & after:
            read = set[str]().union(*(s.loads for s in common))
            bound = items.union(*(s.stores for s in item_steps))
            made.names = sorted((read & bound) | (items & after))
        self._steps.append(made)
        if made.names or common:
            body = [under(s.guards, s.statement) for s in common] or [ast.Pass()]
            target = ast.Tuple([ast.Name(n, ast.Store()) for n in made.names], ast.Store())
            each = ast.For(target, name("_results"), body, [])
            each = ast.fix_missing_locations(ast.copy_location(each, loop))
            self._emit(each, guards)

    def _check_items(self, steps: list[Step]) -> None:
        """Refuse items that come to a state element twice: all come to it before any continues."""
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

    def _divided(self, steps: list[Any], carried: set[str]) -> tuple[list[Step], list[Step]]:
        """Divide a loop's steps into those of each item, and those that items have in common."""
        carried, item_steps, common = set(carried), list[Step](), list[Step]()
        for step in steps:
            if carried & (step.loads | step.stores | mutated(step.statement)):
                if step.site is not None:
                    self._refuse_common(step.statement, carried & step.loads or carried)
                carried |= step.stores
                common.append(step)
            else:
                item_steps.append(step)
        return item_steps, common

    def _refuse_common(self, node: ast.AST, names: set[str]) -> NoReturn:
        names = {n for n in names if n in self._variables.bound} or self._shared or {"results"}
        shown = ", ".join(sorted(names))
        self._refuse(
            node,
            f"an item may see the {shown} of the item before, so it cannot go to its "
            "row by itself: set it first for every item, or collect the items in a list",
        )

    def _emit(self, node: ast.stmt, guards: Guards) -> None:
        """Add a statement that accesses one row at most."""
        accesses = self._accesses(node)
        for one in accesses:  # a key that is computed is computed once
            if one.key is not None and not self._accesses.is_pure(one.key):
                self._accesses.check_order(node)
                variable = self._fresh("key")
                self._emit(assign(variable, copy.deepcopy(one.key), node), guards)
                node = replaced(node, one.key, name(variable))
                self._emit(node, guards)
                return
        step = Step(node, guards)
        if accesses:
            step.site, step.key = accesses[0].site, accesses[0].key
            step.writes = any(one.writes for one in accesses)
        rows = self._row.sets(node)
        if rows:
            step.site, step.writes = rows[0], True
        self._row.add(node, step.site, accesses, guards)
        self._steps.append(step)
        self._variables.versions.update(stores([node]))


def _continues(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Continue) for n in of_this_loop([node]))


# Variables that have a row of named fields, or an object that has one in it.
#
# What a method has of a row is a copy as soon as another row of that state element is accessed: to
# read it after that, or to set fields of what is not known to be the row itself, is refused.

_KEEPING = {
    "dict", "enumerate", "iter", "list", "max", "min", "next", "reversed", "set", "sorted", "tuple",
    "zip",
}  # fmt: skip


class RowVariables:
    """The rows that variables of one method have.

    Args:
        variables: the method's variables.
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
            accesses: the statement's accesses.
            guards: the guards that have to hold for it to run.
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
            id(one.expression): one.site for one in accesses
            if one.row and not isinstance(one.expression, ast.Attribute)
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
