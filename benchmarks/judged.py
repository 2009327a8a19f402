"""Aims of a suite: how each number is found, the bound it must keep, and whether it was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Aim", "judged"]

Results = TypeVar("Results")


@dataclass(frozen=True, slots=True)
class Aim(Generic[Results]):
    """One line: how the number is found, its unit, and the bound it must keep."""

    title: str
    find: Callable[[Results], float | None]
    bound: float
    unit: str = "×"
    least: bool = False
    """The number must be at least the bound, otherwise at most."""


def judged(
    aims: Iterable[Aim[Results]], results: Results, unjudged: str | None = None
) -> list[list[str]]:
    """A row for every aim whose number was found: title, number, bound, verdict.

    Args:
        unjudged: stands in the place of every verdict, where none can be given.
    """
    rows = []
    for aim in aims:
        found = aim.find(results)
        if found is None:
            continue
        reached = found >= aim.bound if aim.least else found <= aim.bound
        verdict = unjudged or ("reached" if reached else "**not reached**")
        sign = "≥" if aim.least else "≤"
        rows.append([aim.title, f"{_short(found)} {aim.unit}", f"{sign} {aim.bound:,g}", verdict])
    return rows


def _short(number: float) -> str:
    """Four digits that count; a large number in whole."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
