"""Suites whose targets are beside other systems: ratios of their medians, and the table of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from benchmarks import cells, targets
from benchmarks.document import Chart, Document, Section, Table
from benchmarks.runner import SuiteResults
from benchmarks.targets import Target

__all__ = ["BesideResults", "add_sections", "beside_rows", "beside_table"]

Sizes = TypeVar("Sizes")


class BesideResults(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def ratio(self, case: str, name: str, beside: str, other: str | None = None) -> float | None:
        """Of the medians of two cases; ``other``: the name of the second figure."""
        ours, theirs = self.median(case, name), self.median(beside, other or name)
        return None if ours is None or not theirs else ours / theirs


def beside_rows(
    beside: Iterable[tuple[str, Target[Any]]], r: BesideResults[Any], stated: Sequence[str]
) -> list[list[str]]:
    """A row for every target that was measured, judged at the default sizes on a quiet machine.

    Args:
        beside: each target with the system that it is beside.
        r: what was measured.
        stated: the sizes for which targets are stated.
    """
    unjudged = "machine not quiet" if r.others() > cells.QUIET else None
    default = type(r.sizes)()
    if any(getattr(r.sizes, name) != getattr(default, name) for name in stated):
        unjudged = "stated for other sizes"
    return [
        [row[0], system, *row[1:]]
        for system, target in beside
        for row in targets.rows([target], r, unjudged)
    ]


def add_sections(
    report: Document, r: SuiteResults[Any], shown: Iterable[tuple[str, list[Table | Chart | None]]]
) -> None:
    """Add the sections that have something to show; the first one says what was not measured."""
    problems = "\n".join(f"- **Not measured:** {problem}" for problem in r.problems())
    for title, parts in shown:
        words = "" if report.sections else problems
        there = [part for part in parts if part is not None]
        if there or words:
            report.sections.append(Section(title, words, there))


def beside_table(rows: list[list[str]]) -> Table | None:
    """The rows as a table; None where there are none."""
    head = ["what ours must reach", "beside", "measured", "aim", ""]
    return Table(head, rows) if rows else None
