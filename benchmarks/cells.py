"""What stands in the cells of tables: seconds, counts and ratios, a dash where there is none."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

QUIET = 0.1  # share of the cores that others may use before a time is not to be quoted


def seconds(value: float | None) -> str:
    """Three significant digits, without an exponent."""
    if value is None:
        return "–"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{digits if value >= 0.1 else 4}f}"


def number(value: float | None) -> str:
    """A count."""
    return "–" if value is None else f"{value:,.0f}"


def scaled(value: float | None, factor: float) -> str:
    """So many times a value, in three significant digits."""
    return "–" if value is None else f"{factor * value:.3g}"


def times(ratio: float | None) -> str:
    """A ratio."""
    return "–" if ratio is None else f"{ratio:.3g}×"


def middle(figures: Sequence[float]) -> str:
    """The median in seconds, and of how many."""
    return f"**{seconds(statistics.median(figures))}** ({len(figures)})" if figures else "–"


def spread(figures: Sequence[float]) -> str:
    """The median in seconds (of how many, least to greatest)."""
    if not figures:
        return "–"
    rest = f"{seconds(min(figures))} to {seconds(max(figures))}"
    return f"**{seconds(statistics.median(figures))}** ({len(figures)}, {rest})"


def disturbed(others: float, when: str) -> str:
    """A warning where other programs used more of the cores than is quiet; or empty."""
    if others <= QUIET:
        return ""
    return (
        f"**Not to be quoted: the machine was not quiet.** Other programs used up to "
        f"{others:.0%} of its cores {when}."
    )
