"""Warnings that point at the line of the user's class."""

from __future__ import annotations

import re
import warnings
from typing import Any

from vertexsdk.errors import place_last, warn_caller

_shown: dict[Any, int] = {}  # what Python has shown, by text, kind and line


class ProgramWarning(UserWarning):
    """A program that runs, and whose answer may not be what its author means.

    The text begins with the file and the line, and says what to do.

    >>> issubclass(InterpretedWarning, ProgramWarning)
    True
    """


class InterpretedWarning(ProgramWarning):
    """A program runs interpreted; the text names the line and the reason."""


def warn_at(
    file: str, line: int, text: str, category: type[ProgramWarning] = ProgramWarning
) -> None:
    """Warn of something at a line of a user's file; once, as Python's filters have it by default.

    Args:
        file, line: a place in the user's program.
        text: what is wrong and what to do.
        category: the warning's class.
    """
    placed = f"{file}:{line}: {text}"
    if place_last(placed) != placed:  # in an installed package
        warn_caller(place_last(placed), category)
    else:
        warnings.warn_explicit(placed, category, file, line, registry=_shown)


def split_place(text: str) -> tuple[str, int, str]:
    """Return file, line and the rest of a text `file:line: rest`.

    >>> split_place("rank.py:7: gather: why")
    ('rank.py', 7, 'gather: why')
    """
    match = re.match(r"(.*?):(\d+): (.*)", text, re.DOTALL)
    return (match[1], int(match[2]), match[3]) if match else ("<unknown>", 1, text)
