"""Find names and prose that a reader stumbles over; `./dev check` runs it.

Each pattern has a limit, the number of places that are left: names of the public interface, of
stored fields, and sentences that are right as they are. A limit may only fall.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DIRECTORIES = ("vertexsdk", "algorithms", "backends")
LIMITS = {
    "argument": 1,
    "question": 0,
    "reference": 5,
    "negation": 15,
    "continue": 1,
    "person": 0,
    "identifier": 33,
}
ADVICE = {
    "argument": "describe an argument by a noun phrase: `name: the loop's name`",
    "question": "begin a docstring with what is returned or done, or with a noun",
    "reference": "say what this one does, in place of `see X`",
    "negation": 'write "is not a vertex" in place of "is no vertex"',
    "continue": 'write "continue" in place of "go on"',
    "person": "say who or what it is: the caller, a process, no client",
    "identifier": "name a value by a noun: previous, local, messages, result",
}
_IDENTIFIERS = {"before", "own", "sent", "whole", "found", "gone"}
_LINES = {
    "argument": re.compile(r"^\s+`?[\w`, *]+`?: of\b"),
    "reference": re.compile(r"\b[Ss]ee `"),
    "negation": re.compile(r"\b(is|are|was) no (?!longer|more|other)\w"),
    "continue": re.compile(r"\b(go|goes|going|went|gone) on\b"),
    "person": re.compile(r"\b(nobody|everyone|whoever|everybody)\b", re.IGNORECASE),
}
_QUESTION = re.compile(r"\s*(Whether|What|Who|Where|How|Which|When)\b")


class Place(NamedTuple):
    """A line that has a pattern."""

    pattern: str
    file: str
    line: int
    text: str


def places(file: str, source: str) -> Iterator[Place]:
    """Yield the places of one file.

    >>> [p.pattern for p in places("x.py", "sent = 1  # nobody reads it, see `f`")]
    ['reference', 'person', 'identifier']
    """
    lines = source.split("\n")
    for number, line in enumerate(lines, 1):
        for pattern, expression in _LINES.items():
            if expression.search(line):
                yield Place(pattern, file, number, line.strip())
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            doc = ast.get_docstring(node, clean=False)
            if doc and _QUESTION.match(doc):
                number = node.body[0].lineno
                yield Place("question", file, number, lines[number - 1].strip())
        for name in _bound(node):
            if name.strip("_") in _IDENTIFIERS:
                number = node.lineno  # type: ignore[attr-defined]
                yield Place("identifier", file, number, lines[number - 1].strip())


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node itself defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def main() -> int:
    """Print what exceeds its limit; return the exit status."""
    by_pattern: dict[str, list[Place]] = {pattern: [] for pattern in LIMITS}
    for directory in DIRECTORIES:
        for path in sorted((ROOT / directory).rglob("*.py")):
            for place in places(str(path.relative_to(ROOT)), path.read_text()):
                by_pattern[place.pattern].append(place)
    status = 0
    for pattern, some in by_pattern.items():
        if len(some) > LIMITS[pattern]:
            status = 1
            print(f"{pattern}: {len(some)} places, at most {LIMITS[pattern]}: {ADVICE[pattern]}")
            for place in some:
                print(f"  {place.file}:{place.line}: {place.text}")
        elif len(some) < LIMITS[pattern]:
            print(f"{pattern}: {len(some)} places; lower the limit, which is {LIMITS[pattern]}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
