"""A legend: names with a sample of their colour, in as many lines as they need."""

from __future__ import annotations

from benchmarks.page import svg
from benchmarks.page.colours import is_ours
from benchmarks.page.marks import mark
from benchmarks.page.words import lines_of, width_of

__all__ = ["legend"]

ROW, LINE = 21, 15


def legend(
    names: list[str], classes: list[str], width: int, marked: bool = False
) -> tuple[list[str], float]:
    """Its shapes, and its height. ``marked``: with the marks of lines, and not squares."""
    shapes: list[str] = []
    x, y = 0.0, 2.0
    for name, kind in zip(names, classes, strict=True):
        own = kind.startswith("own") and is_ours(name)
        wide = 20 + width_of(name, bold=own)
        if x and x + wide > width:
            x, y = 0.0, y + ROW
        if marked:
            shapes.append(mark(x + 6, y + 8, kind))
        else:
            shapes.append(svg.rect(x, y + 2, 12, 12, kind + " part"))
        lines = lines_of(name, width - 20, bold=own)
        for k, words in enumerate(lines):
            shapes.append(svg.text(x + 18, y + 12.5 + k * LINE, words, "own" if own else ""))
        y += (len(lines) - 1) * LINE
        x += wide + 14
    return shapes, y + ROW + 5
