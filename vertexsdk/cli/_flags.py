"""Messages as the command line shows them: its flags in place of Python's arguments.

The rest of the package writes what to do as Python does, `replace=True`, `loop=`.
"""

from __future__ import annotations

import re

_NAMES = (
    "at", "backend", "commit_every", "delay_bound", "element", "exact", "format", "grace",
    "keep_answers", "loop", "max_iterations", "multi", "partitioner", "partitions", "program",
    "replace", "resume", "seed", "separator", "snapshot_every", "strict", "timeout", "tolerance",
    "trusted", "undirected", "vertices",
)  # fmt: skip
_OPTION = re.compile(rf"\b({'|'.join(_NAMES)})=(True\b|(?=[\w'\"]))?")
_CALLS = {
    "MainLoop.resume(...)": "`vertexsdk stream --resume`",
    "StatefulLoop.resume(...)": "`vertexsdk serve --resume`",
    "MainLoop(program, graph)": "`vertexsdk stream` without --resume",
    "compiled=False": "--compiled no",
    "exchange='shuffle'": "--engine shuffle",
    "source=, target=": "--source-column, --target-column",
    "pass trusted=True": "add --trusted",
}


def with_flags(text: str) -> str:
    """Return a message with flags in place of arguments.

    >>> with_flags("go on with MainLoop.resume(...), or drop them with replace=True")
    'go on with `vertexsdk stream --resume`, or drop them with --replace'
    >>> with_flags("another loop= or partitions=4; give a value for origin, as in origin=...")
    'another --loop or --partitions 4; give a value for origin, as in --param origin=...'
    >>> with_flags("give separator=';', or say which they are: source=, target=")
    "give --separator ';', or say which they are: --source-column, --target-column"
    """
    for call, flag in _CALLS.items():
        text = text.replace(call, flag)
    text = re.sub(r"\b(\w+=\.\.\.)", r"--param \1", text)
    return _OPTION.sub(_flag, text)


def _flag(match: re.Match[str]) -> str:
    value = " " if match[2] == "" else ""  # one follows
    return f"--{match[1].replace('_', '-')}{value}"
