"""From the steps of a method to its task elements: functions that end where the state element or
its key changes, and send the variables that are still needed on.

A part whose access has a guard is left out by calls for which that does not hold: what else is in
it runs in the task element before.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeGuard

from vertexsdk.program.keyed import (
    ABSENT,
    Batch,
    Each,
    ElementText,
    Items,
    Onward,
    Parameter,
    answered,
)
from vertexsdk.program.keyed_state import Partial, StateElement
from vertexsdk.stateful._lowering import Lowering
from vertexsdk.stateful._names import loads, name, stores
from vertexsdk.stateful._steps import Everywhere, Guards, Loop, Site, Step, test, under
from vertexsdk.stateful.placement import Broadcast, Placement

Compile = Callable[[str, Sequence[str], Sequence[ast.stmt]], FunctionType]
GIVEN: dict[str, Any] = {
    "_Onward": Onward, "_Each": Each, "_Items": Items, "_UNSET": ABSENT, "_Partial": Partial,
    "_answered": answered,
}  # fmt: skip


@dataclass
class Part:
    """The steps of one task element.

    Attributes:
        site: what it accesses; None for no state element.
        key: the expression of the key by which it accesses that.
        guards: the guards of its accesses.
        entry: the loop or `on_all` expression whose results it takes.
        place: the task element's place in the method.
        arguments: the names of its function's arguments.
    """

    site: Site | None = None
    key: ast.expr | None = None
    guards: Guards = ()
    entry: Loop | Everywhere | None = None
    steps: list[Step] = field(default_factory=list)
    place: int = -1
    arguments: list[str] = field(default_factory=list)

    def stores(self) -> set[str]:
        """Return the names that it binds."""
        return set[str]().union(*(step.stores for step in self.steps))

    def read(self) -> set[str]:
        """Return the names that it reads."""
        names = set[str]().union(*(step.loads for step in self.steps))
        names |= {guard for guard, _ in self.guards}
        if self.key is not None:
            names |= loads([self.key])
        if isinstance(self.entry, Loop):
            names |= loads([self.entry.over]).union(*(step.loads for step in self.entry.steps))
            names |= {n for s in self.entry.steps if s.key is not None for n in loads([s.key])}
        elif self.entry is not None:
            names |= loads([self.entry.expression])
        return names


@dataclass
class Cut:
    """A task element, without its level.

    Attributes:
        part: what it was made of.
        table, send, body, writes, last, item, whole: as of a `TaskElement`.
        line: the line of its access.
        text, interpreted, words, batch: as of a `TaskElement`.
    """

    table: str | None
    send: str
    body: FunctionType
    writes: bool
    last: bool
    item: bool
    whole: bool
    line: int
    text: ElementText | None = None
    interpreted: str = ""
    words: tuple[int, int] | None = None
    batch: Batch | None = None


class Cutting:
    """The task elements of one method.

    Args:
        elements: the state elements of the class, by name.
        parameters: the method's parameters, without `self`.
        self_name: what the method calls `self`.
        function: the method; that of its only task element, where it has one.
        lowering: has made the steps.
        compiled: compiles statements as a function with arguments.
    """

    def __init__(
        self, elements: dict[str, Placement], parameters: Sequence[str], self_name: str,
        function: FunctionType, lowering: Lowering, compiled: Compile,
    ) -> None:  # fmt: skip
        self._elements, self._parameters, self._self = elements, parameters, self_name
        self._function, self._lowering, self._compiled = function, lowering, compiled
        self.cuts: list[Cut] = []
        self.key: str | None = None

    def run(self, steps: Sequence[Any], refuse: Callable[[ast.AST, str], Any]) -> list[Cut]:
        """Return the task elements."""
        self._refuse = refuse
        parts = self._parts(steps, start=True)
        if len(parts) == 1:
            part = parts[0]
            self.cuts = [self._cut(part, self._function, last=True, item=False)]
            return self.cuts
        parts[0].arguments = list(self._parameters)
        self._number(parts)
        for k, part in enumerate(parts):
            if k and part.entry is None:
                part.arguments = self._live(parts, k)
        for k, part in enumerate(parts):
            if part.place >= 0:
                self._make(parts, k, part)
        self._check_sent([*parts, *(p for x in parts if isinstance(x.entry, Loop)
                                    for p in x.entry.parts)])  # fmt: skip
        return self.cuts

    def _check_sent(self, parts: Sequence[Part]) -> None:
        """Refuse variables that go to other processors and that cannot be pickled."""
        carried = set[str]().union(*(part.arguments for part in parts[1:]))
        for step in (s for part in parts for s in part.steps):
            node = step.statement
            value = getattr(node, "value", None)
            local = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if local or isinstance(value, ast.Lambda | ast.GeneratorExp):
                for variable in sorted(stores([node]) & carried):
                    self._refuse(node, f"{variable} cannot be sent to another processor: make it a "
                                 "list, or a function of the module")  # fmt: skip

    def _number(self, parts: list[Part]) -> None:
        """Give each task element its place, in the order in which a call comes to them."""
        for k, part in enumerate(parts):
            if isinstance(part.entry, Loop):
                part.entry.parts = self._parts(part.entry.steps, start=False)
                for inner in part.entry.parts[1:]:
                    inner.place = self._reserve()
            elif part.entry is not None:
                part.entry.place = self._reserve()
            gathers = part.entry is None or bool(part.steps) or k < len(parts) - 1
            if gathers:
                part.place = self._reserve()
            if part.entry is not None:
                part.arguments = [*self._live(parts, k), "_results"]

    def _reserve(self) -> int:
        self.cuts.append(None)  # type: ignore[arg-type]
        return len(self.cuts) - 1

    def _parts(self, steps: Sequence[Any], *, start: bool) -> list[Part]:
        parts, part = [Part()], Part()
        part = parts[0]
        for step in steps:
            if isinstance(step, Loop | Everywhere):
                part = Part(guards=step.guards, entry=step)
                parts.append(part)
                if isinstance(step, Everywhere):
                    made = ast.Call(name("_Partial"), [name("_results")], [])
                    target: list[ast.expr] = [ast.Name(step.name, ast.Store())]
                    one = ast.copy_location(ast.Assign(target, made), step.expression)
                    part.steps.append(Step(ast.fix_missing_locations(one), step.guards))
            elif step.site is None or step.site == part.site:
                part.steps.append(step)
            else:
                if step.key is None and step.site.key is not None:
                    self._refuse(step.statement, "the row is a copy here, as another row is "
                                 "accessed before: set its fields first")  # fmt: skip
                if not (start and part is parts[0] and self._begins(part, step)):
                    part = Part()
                    parts.append(part)
                part.site, part.key = step.site, step.key
                part.steps.append(step)
        for part in parts:
            guards = [s.guards for s in part.steps if s.site is not None]
            if guards and part.entry is None:
                part.guards = _common(guards)
        return self._with_start(parts) if start else parts

    def _with_start(self, parts: list[Part]) -> list[Part]:
        """A call begins on one partition, also one that writes on all."""
        first = parts[0]
        if first.site is not None and self._send(first) == "all":
            parts = [Part(), *parts]
        elif first.site is not None and first.site.key is not None:
            assert isinstance(first.key, ast.Name)
            self.key = first.key.id
        return parts

    def _begins(self, part: Part, step: Step) -> bool:
        """Return whether the calls of a method begin where its first access is."""
        if part.site is not None:
            return False
        declared = self._elements[step.site.table]  # type: ignore[union-attr]
        if step.key is None:
            return True
        any_key = declared.spec.size is None
        if not (isinstance(step.key, ast.Name) and step.key.id in self._parameters and any_key):
            return False
        return step.key.id not in part.stores()

    def _send(self, part: Part) -> str:
        if part.site is None:
            return "here"
        if part.site.key is not None:
            return "key"
        broadcast = isinstance(self._elements[part.site.table], Broadcast)
        return "all" if broadcast and any(s.writes for s in part.steps) else "here"

    def _cut(self, part: Part, body: FunctionType, *, last: bool, item: bool) -> Cut:
        at = next((s.statement for s in part.steps if s.site is not None), None)
        at = at or next((s.statement for s in part.steps[bool(part.entry) :]), None)
        line = self._function.__code__.co_firstlineno if at is None else at.lineno
        return Cut(
            None if part.site is None else part.site.table, self._send(part), body,
            any(s.writes for s in part.steps), last, item, False, line,
        )  # fmt: skip

    # Variables

    def _live(self, parts: Sequence[Part], k: int, outer: Iterable[str] = ()) -> list[str]:
        """The variables that a part and those after it read, and that are bound before it."""
        bound = set(outer) or set(self._parameters)
        for part in parts[:k]:
            bound |= part.stores()
        read = set[str]().union(*(part.read() for part in parts[k:]))
        return sorted(bound & read - {self._self, "_results"})

    def _definite(self, parts: Sequence[Part], k: int, variable: str, outer: Iterable[str]) -> bool:
        """Return whether a variable always has a value when a part begins."""
        if any(variable in s.unset for part in parts[:k] for s in part.steps):
            return False
        if variable in self._parameters or variable in outer:
            return True
        guards = parts[k].guards
        return any(
            isinstance(s.statement, ast.Assign | ast.AnnAssign) and s.statement.value
            and variable in s.stores and guards[: len(s.guards)] == s.guards
            for part in parts[:k] for s in part.steps
        )  # fmt: skip

    def _carried_values(
        self, parts: Sequence[Part], k: int, names: Sequence[str], outer: Iterable[str] = ()
    ) -> tuple[list[ast.stmt], ast.Tuple]:
        """Return what gives variables without a value one, and the tuple of all."""
        values: list[ast.expr] = []
        made: list[ast.stmt] = []
        for variable in names:
            if not self._definite(parts, k, variable, outer):
                made.append(self._or_unset(variable))
            value: ast.expr = name(variable)
            if variable in self._lowering.row_names:
                value = ast.Call(name("_answered"), [value], [])
            values.append(value)
        return made, ast.Tuple(values, ast.Load())

    def _or_unset(self, variable: str) -> ast.stmt:
        return _parsed(f"try: {variable}\nexcept NameError: {variable} = _UNSET")

    # Functions

    def _make(self, parts: list[Part], k: int, part: Part) -> None:
        """Compile the task element of a part."""
        body = self._entered(parts, k, part.arguments, ())
        body += self._emitted(part.steps)
        tail = self._tail(parts, k + 1, (), None)
        function = self._function_of(part, [*body, *tail])
        self.cuts[part.place] = self._cut(part, function, last=not tail, item=False)
        self.cuts[part.place].words = _words([*body, *tail], part.arguments)
        if isinstance(part.entry, Everywhere):
            self._make_everywhere(parts, k, part.entry)

    def _function_of(self, part: Part, body: list[ast.stmt]) -> FunctionType:
        return self._compiled(
            self._function.__name__, [self._self, *part.arguments], body or [ast.Pass()]
        )

    def _entered(
        self, parts: Sequence[Part], k: int, names: Sequence[str], outer: Iterable[str]
    ) -> list[ast.stmt]:
        return [
            _parsed(f"if {n} is _UNSET: del {n}")
            for n in names
            if k and n != "_results" and not self._definite(parts, k, n, outer)
        ]

    def _make_everywhere(self, parts: list[Part], k: int, entry: Everywhere) -> None:
        names = self._everywhere_names(parts, k, entry)
        result = ast.copy_location(ast.Return(entry.expression), entry.expression)
        function = self._compiled(self._function.__name__, [self._self, *names], [result])
        self.cuts[entry.place] = Cut(
            entry.table, "all", function, False, True, True, True, entry.expression.lineno
        )

    def _everywhere_names(self, parts: list[Part], k: int, entry: Everywhere) -> list[str]:
        bound = set(self._parameters)
        for part in parts[:k]:
            bound |= part.stores()
        return sorted(bound & loads([entry.expression]))

    def _emitted(self, steps: Iterable[Step]) -> list[ast.stmt]:
        return [under(s.guards, copy.deepcopy(s.statement)) for s in steps]

    def _tail(self, parts: list[Part], k: int, outer: Iterable[str], head: Any) -> list[ast.stmt]:
        """Return what sends a call on to a part, or runs the rest of it where its guards do not
        hold.
        """
        if k == len(parts):
            return []
        part = parts[k]
        if isinstance(part.entry, Loop):
            onward = self._to_items(parts, k, part.entry)
        elif part.entry is not None:
            onward = self._to_all(parts, k, part.entry)
        else:
            made, values = self._carried_values(parts, k, part.arguments, outer)
            key = ast.Constant(None) if part.site is None or part.key is None else part.key
            call = ast.Call(
                name("_Onward"), [ast.Constant(part.place), copy.deepcopy(key), values], []
            )
            onward = [*made, self._return(call, part)]
        if not part.guards:
            return onward
        n = len(part.guards)
        rest = [s for s in part.steps if s.guards[:n] != part.guards]
        made_if = ast.If(test(part.guards), onward, [])
        first = ast.fix_missing_locations(ast.copy_location(made_if, onward[-1]))
        return [first, *self._emitted(rest), *self._tail(parts, k + 1, outer, head)]

    def _return(self, value: ast.expr, part: Part) -> ast.stmt:
        at = part.steps[0].statement if part.steps else None
        if part.entry is not None:
            at = part.entry.over if isinstance(part.entry, Loop) else part.entry.expression  # type: ignore[assignment]
        made = ast.Return(value)
        if at is not None:
            ast.copy_location(made, at)
        return ast.fix_missing_locations(made)

    def _then(self, parts: list[Part], k: int) -> tuple[list[ast.stmt], ast.expr]:
        part = parts[k]
        if part.place < 0:
            return [], ast.Constant(None)
        made, values = self._carried_values(parts, k, part.arguments[:-1])
        return made, ast.Tuple([ast.Constant(part.place), values], ast.Load())

    def _to_all(self, parts: list[Part], k: int, entry: Everywhere) -> list[ast.stmt]:
        made, then = self._then(parts, k)
        preceding, values = self._carried_values(parts, k, self._everywhere_names(parts, k, entry))
        place = entry.place
        row = ast.Tuple([ast.Constant(place), ast.Constant(None), values], ast.Load())
        call = ast.Call(name("_Each"), [ast.List([row], ast.Load()), then], [])
        return [*made, *preceding, self._return(call, parts[k])]

    def _to_items(self, parts: list[Part], k: int, loop: Loop) -> list[ast.stmt]:
        """Return what sends a row for each item of a loop, and make the task elements of them."""
        inner: list[Part] = loop.parts
        bound = set(self._parameters)
        for part in parts[:k]:
            bound |= part.stores()
        outer = sorted(bound | stores([loop.target]))
        definite = [
            n for n in outer if n in stores([loop.target]) or self._definite(parts, k, n, ())
        ]
        for j, part in enumerate(inner):
            if j:
                part.arguments = self._live_items(inner, j, outer, loop.names)
        for j, part in enumerate(inner):
            if j and self.cuts[part.place] is None:
                body = self._entered(inner, j, part.arguments, definite)
                body += self._emitted(part.steps)
                tail = self._tail(inner, j + 1, definite, None)
                ends = [] if _returns(tail) else self._result(inner, loop, definite)
                function = self._function_of(part, _continued([*body, *tail, *ends], head=False))
                self.cuts[part.place] = self._cut(part, function, last=not tail, item=True)
        made, then = self._then(parts, k)
        first = inner[1]
        if not inner[0].steps and not first.guards and not any(
            not self._definite(inner, 1, n, definite) for n in first.arguments
        ):  # fmt: skip
            _, values = self._carried_values(inner, 1, first.arguments, definite)
            key = ast.Constant(None) if first.key is None else copy.deepcopy(first.key)
            row: ast.expr = ast.Tuple([ast.Constant(first.place), key, values], ast.Load())
            each = ast.comprehension(copy.deepcopy(loop.target), copy.deepcopy(loop.over), [], 0)
            same = first.arguments.index(key.id) if _is_among(key, first.arguments) else -1
            others = [v for n, v in enumerate(values.elts) if n != same]
            if first.key is not None and not loads(others) & stores([loop.target]):
                keys: ast.expr = ast.ListComp(key, [each])
                if ast.unparse(key) == ast.unparse(loop.target):
                    keys = ast.List([ast.Starred(each.iter, ast.Load())], ast.Load())
                given = [ast.Constant(first.place), keys, ast.Tuple(others, ast.Load()),
                         ast.Constant(same), then]  # fmt: skip
                return [*made, self._return(ast.Call(name("_Items"), given, []), parts[k])]
            rows: ast.expr = ast.ListComp(row, [each])
            functions: list[ast.stmt] = []
        else:
            head = self._head(inner, loop, definite)
            names = sorted({
                n.id for step in head.body for n in ast.walk(step) if isinstance(n, ast.Name)
            } & bound - stores([loop.target]))  # fmt: skip
            head.args.args += [ast.arg(n) for n in names]
            unsure = [n for n in names if n not in definite]
            head.body[:0] = [_parsed(f"if {n} is _UNSET: del {n}") for n in unsure]
            functions = [*map(self._or_unset, unsure), ast.fix_missing_locations(head)]
            each = ast.comprehension(
                ast.Name("_item", ast.Store()), copy.deepcopy(loop.over), [], 0
            )
            call = ast.Call(name("_head"), [name("_item"), *map(name, names)], [])
            rows = ast.ListComp(call, [each])
        returned = ast.Call(name("_Each"), [rows, then], [])
        return [*made, *functions, self._return(returned, parts[k])]

    def _live_items(
        self, inner: Sequence[Part], j: int, outer: Sequence[str], names: Sequence[str]
    ) -> list[str]:
        bound = set(outer)
        for part in inner[:j]:
            bound |= part.stores()
        read = set(names).union(*(part.read() for part in inner[j:]))
        return sorted(bound & read - {self._self})

    def _head(self, inner: list[Part], loop: Loop, definite: list[str]) -> ast.FunctionDef:
        """Return the function that runs an item until it goes to its first row."""
        made = _parsed("def _head(_item): pass")
        assert isinstance(made, ast.FunctionDef)
        target = ast.copy_location(
            ast.Assign([copy.deepcopy(loop.target)], name("_item")), loop.over
        )
        body = [target, *self._emitted(inner[0].steps)]
        tail = self._tail(inner, 1, definite, None)
        ends = [] if _returns(tail) else self._result(inner, loop, definite, head=True)
        made.body = _continued([*body, *tail, *ends], head=True)
        return ast.copy_location(made, loop.over)

    def _result(
        self, inner: list[Part], loop: Loop, definite: list[str], *, head: bool = False
    ) -> list[ast.stmt]:
        """Return what ends an item."""
        end = [*inner, Part()]
        made, values = self._carried_values(end, len(inner), loop.names, definite)
        if head:
            values = ast.Tuple(
                [ast.UnaryOp(ast.USub(), ast.Constant(1)), ast.Constant(None), values], ast.Load()
            )
        result = ast.Return(values)
        return [*made, ast.fix_missing_locations(ast.copy_location(result, loop.over))]


class _Continue(ast.NodeTransformer):
    """`continue` of the loop whose body becomes a function."""

    def __init__(self, *, head: bool) -> None:
        self._head = head

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        """Return from the function."""
        value = ast.parse("(-1, None, _UNSET)" if self._head else "_UNSET", mode="eval").body
        return ast.fix_missing_locations(ast.copy_location(ast.Return(value), node))

    def visit_For(self, node: ast.For | ast.While) -> ast.AST:
        """Leave an inner loop as it is, but its else."""
        node.orelse = [self.visit(statement) for statement in node.orelse]
        return node

    visit_While = visit_For


def _continued(body: list[ast.stmt], *, head: bool) -> list[ast.stmt]:
    return [_Continue(head=head).visit(node) for node in body]


def _is_among(node: ast.expr, names: Sequence[str]) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and node.id in names


def _words(body: Sequence[ast.stmt], arguments: Sequence[str]) -> tuple[int, int] | None:
    """Return `words` of a `TaskElement` where its body is `return _Items(n, [*x.split()], ...)`."""
    match body:
        case [ast.Return(ast.Call(ast.Name("_Items"), [
            ast.Constant(int(place)),
            ast.List([ast.Starred(ast.Call(ast.Attribute(ast.Name(text), "split"), [], []))]),
            ast.Tuple([]), ast.Constant(0), ast.Constant(None),
        ]))] if text in arguments:  # fmt: skip
            return arguments.index(text), place
    return None


def batch_of(
    statements: Sequence[ast.stmt], element: StateElement, parameters: Sequence[Parameter]
) -> Batch | None:
    """Return `batch` of the only `TaskElement` of a method, None where it has none.

    Args:
        statements: the method's statements, without its docstring.
        element: the state element that it accesses.
        parameters: the method's parameters.
    """
    kinds = {p.name: p.kind for p in parameters}
    match statements:
        case [ast.Expr(call) | ast.Return(call)]:
            match call:
                case ast.Call(ast.Attribute(_, method), [ast.Name(key), *_] as given, []):
                    known = all(isinstance(one, ast.Name) and one.id in kinds for one in given)
                    any_key = element.number_of_keys is None and kinds.get(key) == element.key
                    if known and any_key and method in element.batches:
                        places = tuple(list(kinds).index(one.id) for one in given)  # type: ignore[attr-defined]
                        answers = isinstance(statements[0], ast.Return)
                        return Batch(element.batches[method], places, answers=answers)
    return None


def _returns(statements: Sequence[ast.stmt]) -> bool:
    return bool(statements) and isinstance(statements[-1], ast.Return)


def _common(guards: Sequence[Guards]) -> Guards:
    """Return what several guards begin with."""
    shared = guards[0]
    for one in guards[1:]:
        n = 0
        while n < min(len(shared), len(one)) and shared[n] == one[n]:
            n += 1
        shared = shared[:n]
    return shared


def _parsed(text: str) -> ast.stmt:
    return ast.parse(text).body[0]
