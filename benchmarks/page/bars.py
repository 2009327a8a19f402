"""Bars, lying, each with its name and its number beside it."""

from __future__ import annotations

from benchmarks.document import Chart
from benchmarks.page import svg
from benchmarks.page.colours import is_ours, of_bars
from benchmarks.page.scales import Scale, short, span
from benchmarks.page.words import lines_of, width_of

__all__ = ["bars"]

ROW, LINE, BAR, GAP, AXIS = 22, 15, 16, 12, 34


def bars(chart: Chart, width: int) -> tuple[list[str], float]:
    """The chart's shapes, and its height. One bar for each category and series."""
    grouped = len(chart.series) > 1
    names = [s.name for s in chart.series] if grouped else chart.categories
    gutter = min(max(width_of(n, bold=is_ours(n)) for n in names) + 10, width * 0.4)
    values = [v for s in chart.series for v in s.values if v is not None and not _bare(chart, v)]
    low, high = span(values, chart.log, zero=True)
    room = max([width_of(short(v), bold=True) for v in values], default=0) + 14
    scale = Scale(low, high, gutter, width - room, chart.log)
    classes = of_bars(chart)
    shapes: list[str] = []
    y = 4.0
    for at, category in enumerate(chart.categories):
        if grouped:
            y += GAP if at else 0
            for words in lines_of(category, width, bold=True):
                shapes.append(svg.text(0, y + 12, words, "group"))
                y += LINE + 3
        for kind, series in zip(classes[at], chart.series, strict=True):
            name = series.name if grouped else category
            value = series.values[at]
            own = "own" if kind.startswith("own") and is_ours(name) else ""
            lines = lines_of(name, gutter - 8, bold=bool(own))
            tall = max(ROW, LINE * len(lines) + 5)
            middle = y + tall / 2
            first = middle + 4.5 - LINE * (len(lines) - 1) / 2
            for k, words in enumerate(lines):
                shapes.append(svg.text(gutter - 8, first + k * LINE, words, own, "end"))
            shapes += _bar(chart, scale, value, middle, kind, f"{category}, {name}")
            y += tall
    return _grid(chart, scale, y) + shapes, y + AXIS


def _bare(chart: Chart, value: float) -> bool:
    """A number for which there is no bar: a logarithmic axis has no place for zero."""
    return chart.log and value <= 0


def _bar(
    chart: Chart, scale: Scale, value: float | None, middle: float, kind: str, name: str
) -> list[str]:
    zero = scale.start if chart.log else scale(0.0)
    if value is None:
        return [svg.text(zero + 6, middle + 4.5, "–", "none")]
    if _bare(chart, value):
        return [svg.text(zero + 6, middle + 4.5, short(value), "number")]
    end = scale(value)
    left, right = min(zero, end), max(zero, end)
    says = f"{name}: {short(value)} {chart.unit}"
    return [
        svg.rect(left, middle - BAR / 2, max(right - left, 1), BAR, kind, says),
        svg.text(right + 6, middle + 4.5, short(value), "number"),
    ]


def _grid(chart: Chart, scale: Scale, bottom: float) -> list[str]:
    shapes = []
    taken = -1e9
    for tick in scale.ticks():
        x, words = scale(tick), short(tick)
        shapes.append(svg.line(x, 0, x, bottom, "grid"))
        if x - width_of(words, 12) / 2 > taken + 6:
            shapes.append(svg.text(x, bottom + 14, words, "tick", "middle"))
            taken = x + width_of(words, 12) / 2
    start = scale.start if chart.log else scale(0.0)
    shapes.append(svg.line(start, 0, start, bottom, "base"))
    unit = chart.unit + (", logarithmic" if chart.log else "")
    return [*shapes, svg.text(scale.start, bottom + 30, unit, "tick")]
