"""Mistakes in a Vertex class that Python accepts and that would change answers in silence.

Where the answer cannot be right the class is refused; where it may be right, a warning names the
class and the line.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import random
from collections.abc import Collection, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vertexsdk.errors import ProgramError
from vertexsdk.program.syntax import Method, class_lines, function_tree, reachable
from vertexsdk.program.vertex import Field, Vertex
from vertexsdk.program.warn import warn_at

ROOTS = ("init", "adapt", "gather", "next_round", "scatter", "converged")
_OPTIONS = (
    "messages", "direction", "parallel_edges", "edge", "tolerance", "always", "max_iterations",
    "asynchronous", "result", "edge_values",
)  # fmt: skip
_FUNCTIONS = (FunctionType, staticmethod, classmethod, property)


def check_class(cls: type[Vertex], methods: Mapping[str, Method], file: str, line: int) -> None:
    """Check names, options and methods of a class.

    Args:
        methods: the class's methods, by name.
        file, line: where it is defined.

    Raises:
        ProgramError: an answer of it could not be right.
    """
    lines = class_lines(file, line)

    def at(name: str) -> str:
        return f"{file}:{lines.get(name, line)}: {cls.__name__}"

    for name in ("__init__", "__new__"):
        if getattr(cls, name) is not getattr(Vertex, name):
            raise ProgramError(
                f"{at(name)}: {name} is never called: set the first state in init(self), and "
                "declare what is the same for all vertices as param()"
            )
    _check_options(cls, at)
    used = _used_names(methods)
    for name, value in _attributes(cls):
        near = _nearest(name, ROOTS if isinstance(value, _FUNCTIONS) else _OPTIONS)
        if name in used or hasattr(Vertex, name):
            continue
        if near is not None:
            raise ProgramError(f"{at(name)}: there is no {name!r}; did you mean {near!r}?")
        if not isinstance(value, _FUNCTIONS) and not name.isupper():
            warn_at(
                file, lines.get(name, line),
                f"{cls.__name__}: no method reads {name!r}, and it is not an option of Vertex "
                f"({', '.join(_OPTIONS)}): remove it, or write it in capitals if it is a constant",
            )  # fmt: skip
    for method in methods.values():
        _check_method(cls, method)
    if cls.messages is None:
        _check_targets_are_kept(cls, methods)
    for root in ROOTS:
        for method in reachable(methods, root):
            _warn_of_randomness(cls, method)


def _check_options(cls: type[Vertex], at: Any) -> None:
    """Raise ProgramError for a class attribute of the wrong type."""
    options: dict[str, tuple[bool, str]] = {
        "always": (isinstance(cls.always, bool), "True or False"),
        "max_iterations": (
            cls.max_iterations is None or _is_number(cls.max_iterations, int),
            "an integer from 0, or None",
        ),
        "tolerance": (_is_number(cls.tolerance, (int, float)), "a number from 0"),
        "asynchronous": (cls.asynchronous in (None, True, False), "True, False or None"),
        "edge": (isinstance(cls.edge, (type, Mapping)), "int, float, or a dict of names and types"),
        "edge_values": (
            isinstance(cls.edge_values, tuple)
            and all(isinstance(name, str) for name in cls.edge_values)
            and len(cls.edge_values) in (0, getattr(cls.messages, "size", None) or 1),
            "a tuple of a name for each number in a message",
        ),
        "result": (cls.result is None or isinstance(cls.result, str), "the name of a field"),
    }
    for name, (fits, takes) in options.items():
        if not fits:
            raise ProgramError(f"{at(name)}: {name} = {getattr(cls, name)!r}: it takes {takes}")


def _is_number(value: Any, kind: Any) -> bool:
    kinds = (int, np.integer) if kind is int else (int, float, np.number)
    return isinstance(value, kinds) and not isinstance(value, bool) and bool(value >= 0)


def _attributes(cls: type[Vertex]) -> Iterator[tuple[str, Any]]:
    """Yield what a class and its bases below Vertex bind, without fields and private names."""
    for base in cls.__mro__[: cls.__mro__.index(Vertex)]:
        for name, value in vars(base).items():
            if not name.startswith("_") and not isinstance(value, Field):
                yield name, value


def _nearest(name: str, names: Collection[str]) -> str | None:
    close = difflib.get_close_matches(name.lower().replace("_", ""), names, 1, 0.8)
    return (
        close[0]
        if close
        else next(iter(difflib.get_close_matches(name.lower(), names, 1, 0.8)), None)
    )


def _used_names(methods: Mapping[str, Method]) -> set[str]:
    """The attributes that methods read of anything, and all names where a source is missing."""
    return {n.attr for m in methods.values() for n in m.nodes() if isinstance(n, ast.Attribute)} | {
        name for m in methods.values() if m.tree is None for name in m.function.__code__.co_names
    }


def _check_method(cls: type[Vertex], method: Method) -> None:
    """Raise ProgramError for a method whose result would be lost, or that would not run."""
    where = f"{method.file}:{method.line}: {cls.__name__}.{method.name}"
    if method.name not in ROOTS or method.tree is None:
        return
    function = method.function
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise ProgramError(
            f"{where} has a yield or is async, so it would never run: send messages by "
            "self.emit(target, value)"
        )
    if method.name == "converged":
        if not any(n.value is not None for n in _returns(method.tree)):
            raise ProgramError(f"{where} returns nothing: return whether the loop may stop")
        return
    for node in _returns(method.tree):
        nothing = node.value is None or (
            isinstance(node.value, ast.Constant) and node.value.value is None
        )
        if not nothing and not _is_call_of_own(method, node.value):
            raise ProgramError(
                f"{method.file}:{node.lineno}: {cls.__name__}.{method.name} returns a value, which "
                "is not used: assign it to a state field, self.NAME = ..."
            )
    if method.name == "gather" and cls.messages is not None:
        handed_on = {
            id(argument)
            for call in method.nodes()
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            for argument in call.args
        }  # as in super().gather(iteration, source, delta)
        read = [n for n in method.nodes() if method.reads_argument(n, 2) and id(n) not in handed_on]
        if read:
            raise ProgramError(
                f"{method.file}:{getattr(read[0], 'lineno', method.line)}: {cls.__name__}.gather: "
                f"{method.arguments[2]!r} is not a vertex, as messages are combined by "
                f"{cls.messages} before gather: send the id in the message, or leave messages = "
                "... out"
            )
        _check_delta(cls, method)


def _check_delta(cls: type[Vertex], method: Method) -> None:
    """Raise ProgramError if gather reads `value` of messages that are kept apart, or `values`."""
    apart = cls.messages is not None and cls.messages.kind == "latest"
    wrong, right = ("value", "values") if apart else ("values", "value")
    for node in method.nodes():
        if isinstance(node, ast.Attribute) and node.attr == wrong:
            if method.reads_argument(node.value, 3):
                are = "kept apart" if apart else "combined"
                raise ProgramError(
                    f"{method.file}:{node.lineno}: {cls.__name__}.gather: messages are {are} "
                    f"by {cls.messages}: read {method.arguments[3]}.{right}"
                )


def _check_targets_are_kept(cls: type[Vertex], methods: Mapping[str, Method]) -> None:
    """Raise ProgramError if scatter sends to targets, and gather does not take edges in."""
    gather, scatter = reachable(methods, "gather"), reachable(methods, "scatter")
    every = [n for m in methods.values() for n in m.nodes()]
    if not gather or any(m.tree is None for m in methods.values()):
        return
    calls = {n.func.attr for n in every if isinstance(n, ast.Call) and hasattr(n.func, "attr")}
    to_targets = any(m.is_self(n, "emitAll", "targets") for m in scatter for n in m.nodes())
    inherited = any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "gather"
        for m in gather
        for n in m.nodes()
    )
    if to_targets and not inherited and "addTarget" not in calls:
        raise ProgramError(
            f"{gather[0].file}:{gather[0].line}: {cls.__name__}.gather takes no edges in, so "
            "self.targets stays empty: begin it with super().gather(iteration, source, delta)"
        )


def _is_call_of_own(method: Method, node: ast.expr | None) -> bool:
    """Return whether a node is `self.x(...)` or `super().x(...)`, as `self.emitAll(x)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    of = node.func.value
    of_super = isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "super"
    return of_super or method.is_self(node.func)


def _returns(tree: ast.AST) -> Iterator[ast.Return]:
    """The return statements of a function, without those of functions in it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _returns(node)


def _warn_of_randomness(cls: type[Vertex], method: Method, depth: int = 2) -> None:
    """Warn of random numbers that do not follow from the run's seed, also in functions called."""
    known = {**method.function.__globals__, **dict(_closure(method.function))}
    parents = {id(c): n for n in method.nodes() for c in ast.iter_child_nodes(n)}
    seen: set[str] = set()
    for node in method.nodes():
        if not isinstance(node, ast.Name) or node.id in seen or node.id not in known:
            continue
        seen.add(node.id)
        value, parent = known[node.id], parents.get(id(node))
        attribute = parent.attr if isinstance(parent, ast.Attribute) else ""
        if _is_random(value) or (value is np and attribute == "random"):
            drawn = f"{node.id}.{attribute}" if attribute else node.id
            warn_at(
                method.file, node.lineno,
                f"{cls.__name__}.{method.name}: {drawn} does not follow from the run's seed, so "
                "every run and every retry gives another answer: use self.random()",
            )  # fmt: skip
        elif isinstance(value, FunctionType) and value.__module__ == cls.__module__ and depth:
            code = value.__code__
            tree = function_tree(value)
            inner = Method(value.__name__, value, tree, code.co_filename, code.co_firstlineno)
            _warn_of_randomness(cls, inner, depth - 1)


def _is_random(value: Any) -> bool:
    module = getattr(value, "__self__", value)
    kinds = (random.Random, np.random.Generator, np.random.RandomState)
    if isinstance(module, ModuleType):
        return module in (random, np.random)
    return isinstance(module, kinds)


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue
