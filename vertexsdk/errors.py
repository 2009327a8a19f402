"""Every error that a user can meet.

    VertexError
    ├── InputError          bad arguments or input data; the command line exits with 2
    │   └── ProgramError    a Vertex class that cannot run as written
    ├── RunError            a run that failed; what was committed stays readable; exits with 1
    │   └── CallError       a method of a stateful class that raised; its call changed nothing
    └── StateError          the versioned store cannot do what was asked; exits with 1
        └── StateInputError (also InputError) a wrong URL or loop name; exits with 2

Each message is one line that says what is wrong and what to do about it.
"""

from __future__ import annotations

import re
import reprlib
import sys
import traceback
import warnings

__all__ = [
    "CallError",
    "InputError",
    "ProgramError",
    "RunError",
    "StateError",
    "StateInputError",
    "VertexError",
    "excerpt",
    "first_line",
    "place_last",
    "shorten",
    "typed_line",
    "warn_caller",
]

_excerpts = reprlib.Repr()
_excerpts.maxstring = _excerpts.maxother = 80
_INSTALLED = re.compile(r"\S[^\n]*?[/\\](?:site|dist)-packages[/\\](\S+?:\d+): ")


def excerpt(value: object) -> str:
    """Return `repr(value)` for a message; of a long one 80 characters, with `...` in the middle.

    >>> len(excerpt("x" * 50_000_000))
    80
    """
    return _excerpts.repr(value)


def first_line(error: BaseException) -> str:
    """Return what another library says of an error as one line of at most 200 characters."""
    return shorten(next(iter(str(error).strip().splitlines()), type(error).__name__), 200)


def typed_line(error: BaseException) -> str:
    """Return the type and the first line of an error, as in "KeyError: 'a'"."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def shorten(text: str, most: int = 80) -> str:
    """Return a text for a message; of a long one the first characters, `most` with `...`."""
    return text if len(text) <= most else text[: most - 3] + "..."


def place_last(text: str) -> str:
    """Return a message that begins with a line of an installed package with that at its end.

    >>> place_last("/usr/lib/python3/site-packages/ours/rank.py:7: Rank.gather: why")
    'Rank.gather: why (ours/rank.py:7)'
    """
    match = _INSTALLED.match(text)
    return f"{text[match.end() :]} ({match[1]})" if match else text


def warn_caller(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the line outside of vertexsdk from which it was called.

    Args:
        text: what is wrong and what to do, in one line.
        category: of the warning.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "vertexsdk":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


class VertexError(Exception):
    """Base of every error that vertexsdk raises on purpose.

    Attributes:
        user_frames: file, line and function of each call from a method of a user's class to where
            it raised; empty for other errors. A notebook shows these, and none of vertexsdk.

    >>> import vertexsdk
    >>> try:
    ...     vertexsdk.read("files:///tmp", "pagerank")
    ... except vertexsdk.VertexError as error:
    ...     print(error)
    no backend for files://, only for lmdb, memory, ...

    """

    exit_status = 1
    user_frames: tuple[tuple[str, int, str], ...] = ()

    def __str__(self) -> str:
        return place_last(super().__str__())

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the message, below the frames of a user's method."""
        frames = [traceback.FrameSummary(*frame) for frame in self.user_frames]
        lines = "".join(traceback.format_list(frames)).splitlines()
        lines.append(f"{type(self).__name__}: {self}")
        return [_with_cells(line) for line in lines]


def _with_cells(line: str) -> str:
    """Return a line of a traceback in which files that are cells of a notebook are so called."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    if shell is None:
        return line

    def cell(match: re.Match[str]) -> str:
        named = shell.compile.format_code_name(match[1] or match[3])
        if named is None or named[0] != "Cell":
            return match[0]
        return f"Cell {named[1]}, line {match[2] or match[4]}"

    return re.sub(r'File "([^"]+)", line (\d+)|([^\s"]+):(\d+)(?=: )', cell, line)


class InputError(VertexError):
    """Arguments or input that cannot be used; nothing was run.

    >>> import vertexsdk
    >>> vertexsdk.Changes.of([("+", 1)])
    Traceback (most recent call last):
    vertexsdk.errors.InputError: ('+', 1) is not a change; write ('+', source, target[, value])

    """

    exit_status = 2


class ProgramError(InputError):
    """A `Vertex` subclass that cannot run as written; the message names the class and the line.

    >>> import vertexsdk
    >>> vertexsdk.Sum(str)
    Traceback (most recent call last):
    vertexsdk.errors.ProgramError: Sum(str): takes int, float or VertexId; ...

    """


class RunError(VertexError):
    """A run that started and failed; versions committed before the failure stay readable.

    >>> from vertexsdk import Graph, MainLoop
    >>> from vertexsdk.algorithms import BreadthFirstSearch
    >>> graph = Graph.from_arrays([1, 2], [2, 3], spark=spark)
    >>> with MainLoop(BreadthFirstSearch, graph, params={"origin": 1}, backend="memory://") as main:
    ...     main.query(max_iterations=1)
    Traceback (most recent call last):
    vertexsdk.errors.RunError: loop ... met its limit of iterations, before its fixed point: ...

    """


class CallError(RunError):
    """A method of a stateful class raised; what that call had changed was taken back.

    >>> from vertexsdk import Map, Partitioned, Stateful, StatefulLoop
    >>> class Ratio(Stateful):
    ...     parts = Partitioned(Map(str, float), key="name")
    ...     def divide(self, name: str, by: int) -> None:
    ...         self.parts[name] = 1 / by
    >>> with StatefulLoop(Ratio, backend="memory://call-error") as flow:
    ...     flow.divide("a", 0)
    Traceback (most recent call last):
    vertexsdk.errors.CallError: ...: Ratio.divide: ZeroDivisionError: ...

    """


class LostError(RunError):
    """A host does not hold what a task needs; the driver loads it again, or gives up."""


class StateError(VertexError):
    """The versioned store could not read or write what was asked.

    >>> from vertexsdk.state import open_store
    >>> list(open_store("memory://").read("pagerank"))
    Traceback (most recent call last):
    vertexsdk.errors.StateInputError: there is no loop 'pagerank' in memory://...: it has none

    """


class StateInputError(StateError, InputError):
    """A wrong backend URL or loop name; nothing was read or written.

    >>> import vertexsdk
    >>> vertexsdk.read("lmdb:///nowhere", "pagerank")
    Traceback (most recent call last):
    vertexsdk.errors.StateInputError: ...

    """

    exit_status = 2
