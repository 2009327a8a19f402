"""What a method may not call, as its calls are repeated from the log, and run on any machine."""

from __future__ import annotations

import ast
import datetime
import inspect
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vertexsdk.program.keyed import ABSENT
from vertexsdk.program.syntax import function_tree
from vertexsdk.stateful._names import mutated_here, stores

_OWN = str(Path(__file__).parents[1])

_TIMES = {"now", "today", "utcnow"}
_DIFFERENT = {"secrets", "time", "uuid", "numpy.random", "random"}
_SEEDED = {"uuid3", "uuid5", "UUID"}
_SLEEP = {"sleep", "strftime", "strptime", "gmtime", "mktime"}  # of a time that is given
_MACHINE = {
    "asyncio", "builtins.input", "builtins.open", "ftplib", "http", "multiprocessing", "os",
    "pathlib", "requests", "shutil", "smtplib", "socket", "subprocess", "tempfile", "threading",
    "urllib.request", "urllib3",
}  # fmt: skip
_NAMES = {"_io": "builtins", "io": "builtins", "posix": "os", "nt": "os", "_socket": "socket"}


def value_of(node: ast.AST, function: FunctionType) -> Any:
    """Return what a name or attribute within a function is, `ABSENT` where that is not known."""
    if isinstance(node, ast.Attribute):
        return getattr(value_of(node.value, function), node.attr, ABSENT)
    code = function.__code__
    if not isinstance(node, ast.Name) or node.id in code.co_varnames + code.co_cellvars:
        return ABSENT
    names = inspect.getclosurevars(function)
    for known in (names.nonlocals, names.globals, names.builtins):
        if node.id in known:
            return known[node.id]
    return function.__globals__.get(node.id, ABSENT)


def differing_calls(
    function: FunctionType, tree: ast.AST, seen: frozenset[Any] = frozenset()
) -> Iterator[tuple[ast.AST, str]]:
    """Yield the calls that a method may not make, also by functions of the user's, and why.

    Args:
        function, tree: the method.
        seen: functions that were looked at.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        passed = [
            ast.Call(given, [], []) for given in (*node.args, *(k.value for k in node.keywords))
        ]
        for call in (node, *passed):  # map(hash, words) calls it too
            called = value_of(call.func, function)
            reason = _reason(call, called)
            if reason:
                yield node, reason
            elif isinstance(called, FunctionType) and called not in seen and _is_users(called):
                inner = function_tree(called)
                for why in _differing(called, inner, seen | {called}) if inner else ():
                    yield node, f"{ast.unparse(call.func)}() is not for methods: {why}"


def locals_of(function: FunctionType, tree: ast.AST) -> set[str]:
    """The variables of a function and of those in it, but those that are objects of the module."""
    code = function.__code__
    names = {*code.co_varnames, *code.co_cellvars} | {
        n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)
    } | stores(n for n in ast.walk(tree) if isinstance(n, ast.Assign | ast.For))  # fmt: skip
    declared = {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}
    return names - declared - {
        target.id for node in ast.walk(tree) if isinstance(node, ast.Assign)
        for target in node.targets if isinstance(target, ast.Name)
        and isinstance(value_of(node.value, function), list | dict | set | bytearray)
    }  # fmt: skip


def mutated_outside(function: FunctionType, node: ast.AST, local: set[str]) -> set[str]:
    """The name of the object that a node changes, where it is not a variable of the function."""
    called = isinstance(node, ast.Call)  # np.add(a, b) changes nothing
    return {
        name for name in mutated_here(node) - local
        if not (called and isinstance(value_of(ast.Name(name), function), ModuleType))
    }  # fmt: skip


def _differing(function: FunctionType, tree: ast.AST, seen: frozenset[Any]) -> Iterator[str]:
    """Yield why methods may not call a function of the user's."""
    local = locals_of(function, tree)
    for node in ast.walk(tree):
        declared = set(node.names) if isinstance(node, ast.Global | ast.Nonlocal) else set[str]()
        for name in sorted((declared - local) | mutated_outside(function, node, local)):
            yield f"{name} would be state outside of state elements: keep it in a Map"
    for _, why in differing_calls(function, tree, seen):
        yield why


def _is_users(function: FunctionType) -> bool:
    """Whether a function is neither of a library nor of Python."""
    file = function.__code__.co_filename
    return not any(part in file for part in ("site-packages", sysconfig.get_path("stdlib"), _OWN))


def _reason(call: ast.Call, function: Any) -> str:
    """Return why a method may not make a call, "" where it may."""
    shown = ast.unparse(call.func)
    name, module = getattr(function, "__name__", ""), _module_of(function)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        differs = name in _TIMES
    elif isinstance(owner, random.Random):
        differs = owner is getattr(random, "_inst", None)
    elif function in (random.Random, np.random.default_rng, np.random.RandomState):
        differs = not call.args and not call.keywords  # with a seed it is the same again
    else:
        differs = _is_of(module, name, _DIFFERENT) and name not in _SEEDED | _SLEEP
        differs = differs or (module == "os" and name in ("urandom", "getrandom"))
    if differs:
        return f"{shown}() differs in a replay: pass it as an argument"
    if function in (hash, id):
        return (
            f"{shown}() differs in another process: use zlib.crc32(text.encode()), or a key itself"
        )
    if _is_of(module, name, _MACHINE):
        return (
            f"{shown}() runs on another machine, and again in a replay: pass what it reads as an "
            "argument, and write what a call answers"
        )
    return ""


def _module_of(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):
        module = owner.__name__
    else:
        module = getattr(function, "__module__", None) or ""
    return _NAMES.get(module, module)


def _is_of(module: str, name: str, modules: set[str]) -> bool:
    return bool(module) and (
        f"{module}.{name}" in modules
        or any(module == one or module.startswith(f"{one}.") for one in modules)
    )
