"""Names: those that statements load, bind, may leave without a value, or whose objects they change.

`Variables` has those of one method.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NoReturn, TypeAlias

from vertexsdk.stateful._expressions import COMPREHENSIONS, is_pure, only_reads

Refuse: TypeAlias = Callable[[ast.AST | None, str], NoReturn]
_PARTS = (ast.Subscript, ast.Attribute, ast.FormattedValue, ast.Starred)
MUTATORS = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
    "popleft", "remove", "reverse", "setdefault", "sort", "update", "write",
}  # fmt: skip


def name(identifier: str) -> ast.Name:
    """Return a name that is read."""
    return ast.Name(identifier, ast.Load())


def assign(identifier: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    """Return the assignment of a value to a name."""
    made = ast.Assign([ast.Name(identifier, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(made, at))


def names_in(tree: ast.AST) -> set[str]:
    """Return the names in a tree."""
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def local_names(tree: ast.AST) -> set[str]:
    """Return the variables of the comprehensions in a tree."""
    return set[str]().union(
        *(names_in(c.target) for c in ast.walk(tree) if isinstance(c, ast.comprehension))
    )


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


def mutated(tree: ast.AST) -> set[str]:
    """Return the names of objects that a tree changes."""
    return set[str]().union(*map(mutated_here, ast.walk(tree)))


def mutated_here(node: ast.AST) -> set[str]:
    """Return the name of the object that a node itself changes."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return {_root(node)} - {""}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return {_root(node.func.value)} - {""} if node.func.attr in MUTATORS else set()
    return set()


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def stale(
    statements: Iterable[ast.stmt], names: set[str], bound: set[str], result: set[str]
) -> set[str]:
    """Collect variables that may have their value from the item before.

    Args:
        statements: the statements of a loop's body.
        names: the names that the body binds.
        bound: the names that have a value of this item.
        result: takes the variables.

    Returns:
        The names that have a value of this item afterwards.
    """

    def read(within: ast.AST) -> None:
        result.update(loads([within]) & (names - bound - local_names(within)))

    for node in statements:
        if isinstance(node, ast.If):
            read(node.test)
            branches = [stale(x, names, set(bound), result) for x in (node.body, node.orelse)]
            ends = [bool(x) and isinstance(x[-1], ast.Continue) for x in (node.body, node.orelse)]
            branches = [b for b, end in zip(branches, ends, strict=True) if not end]
            bound = bound | (set.intersection(*branches) if branches else set())
        elif isinstance(node, ast.For):
            read(node.iter)
            stale(node.body, names, bound | names_in(node.target), result)
            stale(node.orelse, names, bound, result)  # where it runs over nothing
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            read(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                read(target)
                parts = [n for n in ast.walk(target) if isinstance(n, ast.Name)]
                bound = bound | {n.id for n in parts if isinstance(n.ctx, ast.Store)}
        else:
            read(node)
    return bound


class Variables:
    """The names of one method.

    Args:
        self_name: what the method calls `self`.
        kinds: the types of its parameters; None for one without an annotation.
        used: names that the method has.
        refuse: raises, with a line.

    Attributes:
        stored: the variables that the method sets.
        bound: these and the parameters.
        versions: how often each one was set so far.
    """

    def __init__(
        self, self_name: str, kinds: dict[str, str | None], used: set[str], refuse: Refuse
    ) -> None:
        self.self_name, self.kinds = self_name, kinds
        self._used, self._refuse = set(used), refuse
        self.stored, self.bound = set[str](), set(kinds)
        self.versions: Counter[str] = Counter()

    def add(self, statements: Iterable[ast.AST]) -> None:
        """Take in the variables of the method's statements."""
        self.stored = stores(statements)
        self.bound |= self.stored

    def fresh(self, kind: str) -> str:
        """Return a name that the method does not have."""
        k = 1
        while f"_{kind}{k}" in self._used:
            k += 1
        self._used.add(f"_{kind}{k}")
        return f"_{kind}{k}"

    def mutable(self, tree: ast.AST) -> set[str]:
        """Return the variables in a tree whose objects may be changed, as far as is known."""
        return {
            n for n in loads([tree]) - {self.self_name}
            if n in self.bound and not (self.kinds.get(n) and n not in self.stored)
        }  # fmt: skip

    def looks_into(self, tree: ast.AST) -> set[str]:
        """Return the variables of whose objects a tree reads a part, that may be changed
        meanwhile.
        """
        names = set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                of = node.func.id if isinstance(node.func, ast.Name) else ""
                looks = of not in ("abs", "float", "int", "ord", "round") and not (
                    isinstance(node.func, ast.Attribute) and is_pure(node)
                )
            else:
                looks = isinstance(node, (*_PARTS, *COMPREHENSIONS))
            if looks:
                names |= self.mutable(node)
        return names

    def changed_by_calls(self, tree: ast.AST) -> set[str]:
        """Return the variables whose objects calls may change, as heappush(heap, item) does."""
        names = set[str]()
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or only_reads(node):
                continue
            of = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            if isinstance(of, ast.Attribute) and _root(of) == self.self_name:
                continue  # of a state element
            names |= loads([*node.args, *(k.value for k in node.keywords)])
            if isinstance(node.func, ast.Attribute):
                names |= {_root(node.func.value)}
            elif isinstance(node.func, ast.Name) and node.func.id in self.bound:
                self._refuse(node, f"{node.func.id} is a variable, and may change what all items "
                             "have in common: call the function or method by its name")  # fmt: skip
        return {n for n in names if n in self.bound and not self.kinds.get(n)}

    def second_names(
        self, body: Sequence[ast.stmt], changed: set[str], rows: Container[str]
    ) -> set[str]:
        """Return the variables of which those that are changed are a part, or another name.

        Args:
            body: the statements that bind them.
            changed: variables whose objects are changed.
            rows: variables that have a row, and are not asked about.
        """
        pairs: list[tuple[ast.AST, ast.AST]] = []
        for node in (n for statement in body for n in ast.walk(statement)):
            if isinstance(node, ast.Assign):
                pairs += [(target, node.value) for target in node.targets]
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                pairs.append((node.target, node.value))
            elif isinstance(node, ast.For):
                pairs.append((node.target, node.iter))
        names = set(changed)
        for _ in pairs:
            for target, value in pairs:
                copied = (
                    isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
                    and only_reads(value)
                )  # fmt: skip
                if names & stores([target]) and not copied:
                    names |= {n for n in self.mutable(value) if n not in rows}
        return names - changed
