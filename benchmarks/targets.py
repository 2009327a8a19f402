"""Targets: a number of a suite, the bound it must keep, and whether a run kept it.

`rows` judges a run's results and makes the rows of a table; `verdicts` and `wrong_answers` read
them back from the document of any suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from benchmarks.document import Document, Table

Results = TypeVar("Results")

_MET = {"reached": True, "**not reached**": False, "not reached": False}
_HEAD = ["aim", ""]  # the last two columns of every table of targets


@dataclass(frozen=True, slots=True)
class Target(Generic[Results]):
    """One target: how its number is read from the results, its unit, and the bound it must keep.

    ``measure`` returns None where the run has no such number. ``at_least``: the number must be at
    least the bound, otherwise at most. ``beside``: the system that it is a ratio to.
    """

    title: str
    measure: Callable[[Results], float | None]
    bound: float
    unit: str = "×"
    at_least: bool = False
    beside: str = ""


def median(case: str, name: str, times: float = 1.0) -> Callable[[Any], float | None]:
    """What measures the median of a case's figures, so many times."""

    def measure(r: Any) -> float | None:
        value = r.median(case, name)
        return None if value is None else times * value

    return measure


def ratio(
    case: str, name: str, beside: str | None = None, other: str | None = None
) -> Callable[[Any], float | None]:
    """What measures the ratio of two medians; ``beside`` and ``other``: the second's case and
    name, the same as the first's by default."""
    return lambda r: r.ratio(case, name, beside or case, other)


def rows(
    targets: Iterable[Target[Results]], results: Results, unjudged: str | None = None
) -> list[list[str]]:
    """A row for every target whose number was measured: title, beside, number, bound, verdict.

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
        bound = f"{'≥' if target.at_least else '≤'} {target.bound:,g}"
        shown = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
        judged.append([target.title, target.beside, f"{shown} {target.unit}", bound, verdict])
    return judged


def table(
    targets: Iterable[Target[Results]],
    results: Results,
    unjudged: str | None = None,
    shown: Iterable[list[str]] = (),
    title: str = "",
) -> Table | None:
    """The rows, and further ones that have no bound; None where there are none."""
    judged = [*rows(targets, results, unjudged), *shown]
    beside = ["beside"] if any(row[1] for row in judged) else []
    found = [row if beside else [row[0], *row[2:]] for row in judged]
    head = ["what ours must reach", *beside, "measured", *_HEAD]
    return Table(head, found, title) if found else None


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
