"""Charts of the suite: the objective over the stream by rate, and seconds of branches."""

from __future__ import annotations

from benchmarks.document import Chart, Series
from benchmarks.learning.rates import BOLD, BRANCHES, RATES
from benchmarks.learning.targets import Results

__all__ = ["rates"]


def rates(r: Results, case: str, title: str) -> list[Chart]:
    """Two charts with a line for each rate, over percent of the stream."""
    shown = (
        ("objective", "Objective on all instances", "objective", r.sizes.batches),
        ("branch", "From an instant to the answer", "s", BRANCHES),
    )
    return [
        chart
        for figure, what, unit, count in shown
        for chart in _lines(r, case, figure, f"{what}, {title}", unit, count)
    ]


def _lines(r: Results, case: str, figure: str, title: str, unit: str, count: int) -> list[Chart]:
    at = [100 * (number + 1) / count for number in range(count)]
    series = []
    for name in (BOLD, *RATES):
        values: list[float | None] = list(r.figures(case, f"{name} {figure}"))
        if len(values) == count:
            series.append(Series("ours, " + name if name == BOLD else name, values))
    names = [f"{percent:g}" for percent in at]
    x_title = "percent of the stream"
    return [Chart("lines", title, unit, names, series, x=at, x_title=x_title)] if series else []
