"""What a document says about its aims, read from its tables, whatever suite made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.document import Document, Table

__all__ = ["Verdict", "is_judged", "verdicts", "wrong_answers"]

_JUDGED = {"reached": True, "**not reached**": False, "not reached": False}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One aim: its title, what was found, its bound, and whether it was kept.

    ``reached`` is None where it could not be judged; ``said`` tells why.
    """

    title: str
    found: str
    bound: str
    said: str
    reached: bool | None


def verdicts(document: Document) -> list[Verdict]:
    """All aims: the rows of tables like those of `benchmarks.judged`, with what else they say
    between the title and what was found."""
    return [
        Verdict(row[0], row[-3], row[-2], row[-1].strip("* "), _JUDGED.get(row[-1].strip()))
        for table in _tables(document)
        if is_judged(table) or table.head[-2:] == ["aim", ""]
        for row in table.rows
        if len(row) >= 4
    ]


def is_judged(table: Table) -> bool:
    """Whether a table is one of aims."""
    return len(table.head) >= 4 and table.head[0].endswith(("reach", "reached"))


def wrong_answers(document: Document) -> list[str]:
    """The rows in which a cell speaks of a wrong answer, with the head of that column."""
    found = []
    for table in _tables(document):
        for row in table.rows:
            for head, cell in zip(table.head, row, strict=False):
                if "wrong answer" in cell.lower():
                    found.append(f"{row[0]}, {head}: {cell}" if head else f"{row[0]}: {cell}")
    return found


def _tables(document: Document) -> Iterator[Table]:
    for section in document.sections:
        yield from (part for part in section.parts if isinstance(part, Table))
