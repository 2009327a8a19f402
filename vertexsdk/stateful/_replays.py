"""What a method may not call, as its calls are repeated from the log, and run on any machine."""

from __future__ import annotations

import ast
import datetime
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

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


def differs_in_a_replay(call: ast.Call, value_of: Callable[[ast.AST], Any]) -> str:
    """Return why a method may not make a call, "" where it may.

    Args:
        call: the call.
        value_of: returns what an expression is, where it names something of the module.
    """
    function = value_of(call.func)
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
    return {
        "_io": "builtins",
        "io": "builtins",
        "posix": "os",
        "nt": "os",
        "_socket": "socket",
    }.get(module, module)


def _is_of(module: str, name: str, modules: set[str]) -> bool:
    return bool(module) and (
        f"{module}.{name}" in modules
        or any(module == one or module.startswith(f"{one}.") for one in modules)
    )
