"""Stacked bars, lying: one for each category, its parts the series, its sum at the end."""

from __future__ import annotations

from benchmarks.document import Chart
from benchmarks.page import svg
from benchmarks.page.colours import PALETTE, is_ours
from benchmarks.page.legends import legend
from benchmarks.page.scales import Scale, short, span
from benchmarks.page.words import lines_of, width_of

__all__ = ["stacked"]

BAR, LINE, GAP, AXIS = 26, 18, 12, 34


def stacked(chart: Chart, width: int) -> tuple[list[str], float]:
    """The chart's shapes, and its height."""
    sums = [_sum(chart, at) for at in range(len(chart.categories))]
    low, high = span(sums, log=False, zero=True)
    room = max([width_of(short(s), bold=True) for s in sums], default=0) + 12
    scale = Scale(low, high, 0, width - room)
    classes = [f"c{k % PALETTE}" for k in range(len(chart.series))]
    shapes, y = legend([s.name for s in chart.series], classes, width)
    top = y
    bars: list[str] = []
    for at, category in enumerate(chart.categories):
        y += GAP if at else 6
        for words in lines_of(category, width, bold=True):
            bars.append(svg.text(0, y + 11, words, "group own" if is_ours(category) else "group"))
            y += LINE
        end = 0.0
        for kind, series in zip(classes, chart.series, strict=True):
            value = series.values[at] or 0.0
            start, end = end, end + value
            x, right = scale(start), scale(end)
            if right - x <= 0:
                continue
            says = f"{category}, {series.name}: {short(value)} {chart.unit}"
            bars.append(svg.rect(x, y, right - x, BAR, kind + " part", says))
            if width_of(short(value), 12) + 6 < right - x:
                middle = (x + right) / 2
                bars.append(svg.text(middle, y + 17.5, short(value), "on-" + kind, "middle"))
        bars.append(svg.text(scale(end) + 6, y + 17.5, short(sums[at]), "number"))
        y += BAR
    y += 4
    grid = []
    for tick in scale.ticks():
        grid.append(svg.line(scale(tick), top, scale(tick), y, "grid"))
        anchor = "middle" if tick else "start"
        grid.append(svg.text(scale(tick), y + 14, short(tick), "tick", anchor))
    unit = svg.text(0, y + 30, chart.unit, "tick")
    return [*shapes, *grid, *bars, unit], y + AXIS


def _sum(chart: Chart, at: int) -> float:
    return sum(s.values[at] or 0.0 for s in chart.series)
