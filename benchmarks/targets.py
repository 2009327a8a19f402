"""Targets: a number of a suite, the bound it must keep, and whether a run kept it.

`rows` judges a run's results and makes the rows of a table; `verdicts` and `wrong_answers` read
them back from the document of any suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from benchmarks.document import Document, Section, Table

__all__ = ["Target", "Verdict", "rows", "sections", "table", "verdicts", "wrong_answers"]

Results = TypeVar("Results")

_MET = {"reached": True, "**not reached**": False, "not reached": False}
_HEAD = ["aim", ""]  # the last two columns of every table of targets


@dataclass(frozen=True, slots=True)
class Target(Generic[Results]):
    """One target: how its number is read from the results, its unit, and the bound it must keep.

    ``measure`` returns None where the run has no such number. ``at_least``: the number must be at
    least the bound, otherwise at most.
    """

    title: str
    measure: Callable[[Results], float | None]
    bound: float
    unit: str = "×"
    at_least: bool = False


def rows(
    targets: Iterable[Target[Results]], results: Results, unjudged: str | None = None
) -> list[list[str]]:
    """A row for every target whose number was measured: title, number, bound, verdict.

    Args:
        unjudged: why no target can be judged; stands in the place of every verdict.
    """
    judged = []
    for target in targets:
        number = target.measure(results)
        if number is None:
            continue
        met = number >= target.bound if target.at_least else number <= target.bound
        verdict = unjudged or ("reached" if met else "**not reached**")
        sign = "≥" if target.at_least else "≤"
        shown = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
        judged.append(
            [target.title, f"{shown} {target.unit}", f"{sign} {target.bound:,g}", verdict]
        )
    return judged


def sections(
    targets: Iterable[Target[Results]],
    results: Results,
    problems: Iterable[str],
    unjudged: str | None = None,
) -> list[Section]:
    """The section of the targets and of what was not measured; none where there is neither."""
    judged = rows(targets, results, unjudged)
    text = "\n".join(f"- **Not measured:** {problem}" for problem in problems)
    if not judged and not text:
        return []
    return [Section("What must be reached", text, [table(judged)] if judged else [])]


def table(judged: list[list[str]], title: str = "") -> Table:
    """The rows of `rows` as a table."""
    return Table(["what ours must reach", "measured", *_HEAD], judged, title)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target as a document shows it.

    ``met`` is None where it was not judged, and ``text`` says why.
    """

    title: str
    measured: str
    bound: str
    text: str
    met: bool | None


def verdicts(document: Document) -> list[Verdict]:
    """Every target in the document's tables."""
    return [
        Verdict(row[0], row[-3], row[-2], row[-1].strip("* "), _MET.get(row[-1].strip()))
        for each in _tables(document)
        if each.head[-2:] == _HEAD
        for row in each.rows
    ]


def wrong_answers(document: Document) -> list[str]:
    """The cells that report a wrong answer, each with its row and column."""
    return [
        f"{row[0]}, {head}: {cell}" if head else f"{row[0]}: {cell}"
        for each in _tables(document)
        for row in each.rows
        for head, cell in zip(each.head, row, strict=False)
        if "wrong answer" in cell.lower()
    ]


def _tables(document: Document) -> Iterator[Table]:
    for section in document.sections:
        yield from (part for part in section.parts if isinstance(part, Table))
