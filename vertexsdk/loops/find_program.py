"""PROGRAM on the command line: a built-in's name, `module:Class`, or `path.py:Class`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from vertexsdk.errors import InputError, VertexError, excerpt
from vertexsdk.loops._other_names import program_hint, understood
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex


def load_program(text: str) -> Program:
    """Return the program that `text` names.

    Args:
        text: a built-in's name, here or in another system; `module:Class`, or `path.py:Class`.

    Raises:
        InputError: there is no such program, or its file cannot be imported.
    """
    if ":" not in text and not text.endswith(".py"):
        from vertexsdk import algorithms

        built_in = algorithms.ALGORITHMS
        name = text if text in built_in else understood(text)
        if name not in built_in:
            raise InputError(
                f"no built-in program {excerpt(text)}{program_hint(text, built_in)}; `vertexsdk "
                "algorithms` lists them; for one of your own give module:Class or path.py:Class"
            )
        return Program(built_in[name], name=name)
    program = load_class(text, _is_program, "Vertex")
    return program if isinstance(program, Program) else Program(program)


def load_class(text: str, accepts: Callable[[Any], bool], base: str) -> Any:
    """Return what `module:Class` or `path.py:Class` names.

    Args:
        accepts: whether it is of the kind that is wanted.
        base: the class that such a one derives from, for messages.

    Raises:
        InputError: there is no such class, or its file cannot be imported.
    """
    place, _, name = text.rpartition(":") if ":" in text else (text, "", "")
    module = _from_file(place) if place.endswith(".py") else _from_module(place)
    chosen: Any = getattr(module, name, None)
    if accepts(chosen):
        return chosen
    names = sorted(key for key, value in vars(module).items() if accepts(value))
    problem = (
        f"{place} has no {base} subclass {name!r}" if name else f"{place}: write {place}:Class"
    )
    raise InputError(f"{problem}; it has: {', '.join(names) or 'none'}")


def _is_program(value: Any) -> bool:
    a_class = isinstance(value, type) and issubclass(value, Vertex) and value is not Vertex
    return a_class or isinstance(value, Program)


def _from_file(path: str) -> ModuleType:
    """Import a file outside of packages, under a unique name."""
    if not os.path.isfile(path):
        raise InputError(f"no such file: {path}")
    directory = os.path.dirname(os.path.abspath(path))
    name = "vertexsdk_program_" + Path(path).stem.replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = set(sys.modules)
    sys.modules[name] = module
    sys.path.insert(0, directory)
    try:
        spec.loader.exec_module(module)
    except VertexError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{path}: {type(error).__name__}: {error}") from error
    _ship_neighbours(directory, set(sys.modules) - before)
    return module


def _ship_neighbours(directory: str, names: set[str]) -> None:
    """Make cloudpickle send modules beside the program by value; workers cannot import them."""
    for name in names:
        place = os.path.join(directory, *name.split("."))
        file = getattr(sys.modules[name], "__file__", None)
        ours = name.split(".")[0] == "vertexsdk"
        if not ours and file in (f"{place}.py", os.path.join(place, "__init__.py")):
            cloudpickle.register_pickle_by_value(sys.modules[name])


def _from_module(name: str) -> ModuleType:
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except VertexError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"cannot import {name!r}: {error}") from error
