"""The program and the parameters of a user, in the forms that `run` understands."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from vertexsdk.engine.run_options import RunOptions
from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.loops.find_program import load_program
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex


def as_program(program: type[Vertex] | Program | str) -> Program:
    """Return a program of a class, or of a name as on the command line.

    Args:
        program: a Vertex subclass, a `Program`, or a text: a built-in's name, `module:Class`, or
            `path.py:Class`.

    Raises:
        InputError: no program has that name.
        ProgramError: it is something else.

    >>> as_program("pagerank").classes[0].name
    'PageRank'
    """
    if isinstance(program, str):
        return load_program(program)
    if isinstance(program, (list, tuple)):
        raise ProgramError(
            f"a {type(program).__name__} is not a program: MainLoops(programs, graph) runs several "
            "on one graph that changes"
        )
    return program if isinstance(program, Program) else Program(program)


def with_parameters(
    program: type[Vertex] | Program | str,
    params: Mapping[str, Any] | None,
    keywords: Mapping[str, Any] | None = None,
) -> tuple[Program, dict[str, Any]]:
    """Return a program and the values of its parameters, given as a mapping or as keywords.

    Its classes are the variants that these values choose.

    Raises:
        InputError: no such program, a keyword is not a parameter of it, or a value is given
            twice.
        ProgramError: it is something else.

    >>> with_parameters("pagerank", {"weight": "value"}, {"iterations": 3})
    (Program(WeightedPageRank, name='pagerank'), {'weight': 'value', 'iterations': 3})
    """
    program, keywords = as_program(program), keywords or {}
    declared = [*dict.fromkeys(name for spec in program.classes for name in spec.params)]
    for name in keywords:
        if name not in declared:
            options = [field.name for field in fields(RunOptions)]
            near = difflib.get_close_matches(name, [*declared, *options], 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise InputError(
                f"{program.name}: {name!r} is neither an option nor a parameter{hint}; "
                f"its parameters are: {', '.join(declared) or 'none'}"
            )
        if name in (params or {}):
            raise InputError(f"{program.name}: {name} is given twice, in params= and by itself")
    values = {**(params or {}), **keywords}
    return program.variant(values), values


def take_keywords(options: dict[str, Any]) -> dict[str, Any]:
    """Take those keyword arguments out of `options` that are not options of a run."""
    known = {field.name for field in fields(RunOptions)}
    return {name: options.pop(name) for name in [*options] if name not in known}


def check_partitions(partitions: int) -> int:
    """Return a number of partitions.

    Raises:
        InputError: it is not an integer from 1.

    >>> check_partitions(2)
    2
    """
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise InputError(f"partitions is {excerpt(partitions)}: give an integer from 1")
    return partitions
