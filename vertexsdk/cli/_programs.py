"""What the command line shows of programs: `vertexsdk algorithms`, and `run PROGRAM --help`."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Sequence
from typing import Any

from vertexsdk.program.algebra import VertexId
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import MISSING


def list_algorithms(args: argparse.Namespace) -> int:
    """Print the built-in programs, a line each: name, what it computes, and parameters."""
    from vertexsdk.algorithms import ALGORITHMS

    width = max(map(len, ALGORITHMS))
    for name in sorted(ALGORITHMS):
        program = Program(ALGORITHMS[name], name=name)
        parameters = ", ".join(f"{n} ({of})" for n, _, of in parameters_of(program))
        line = f"{name:{width}}  {summary(program)}"
        print(f"{line} Parameters: {parameters}." if parameters else line)
    return 0


def program_help(text: str) -> str:
    """Return what `run PROGRAM --help` says of a program: what it computes, its parameters.

    Raises:
        InputError: there is no such program.
    """
    from vertexsdk.loops.find_program import load_program

    program = load_program(text)
    rows = parameters_of(program)
    width = max((len(name) for name, *_ in rows), default=0)
    lines = [f"\n{program.name}: {summary(program)}"]
    lines += textwrap.wrap(f"The output value is {program.result}.", 98)
    lines += ["", f"parameters of {program.name} (--param NAME=VALUE):"]
    lines += [f"  {name:{width}}  {kind}, {of}" for name, kind, of in rows] or ["  none"]
    return "\n".join(lines) + "\n"


def summary(program: Program) -> str:
    """Return the first sentence that the docstring of a program's first class says."""
    text = inspect.cleandoc(program.classes[0].cls.__dict__.get("__doc__") or "")
    return " ".join(text.partition("\n\n")[0].split()) or "(its class has no docstring)"


def parameters_of(program: Program) -> list[tuple[str, str, str]]:
    """Return each parameter's name, type, and its default in words."""
    rows = []
    for spec in program.classes:
        for name, (kind, default) in spec.params.items():
            of = "required" if default is MISSING else f"default {default}"
            if default is None:
                of = "default none"
            what = "a vertex id" if kind is VertexId else getattr(kind, "__name__", str(kind))
            rows.append((name, what, of))
    return rows


class ProgramHelp(argparse.Action):
    """`--help` that also shows the parameters of the program named before it, or after it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Print the help, and end."""
        parser.print_help()
        program = getattr(namespace, "program", None)
        if program:
            print(program_help(program), end="")
        parser.exit()
