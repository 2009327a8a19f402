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
    gutter = min(max(width_of(n, bold=is_ours(n)) for n in names) + 10, width * 0.45)
    values = [v for s in chart.series for v in s.values if v is not None and not _bare(chart, v)]
    low, high = span(values, chart.log, zero=True)
    room = max([width_of(short(v), bold=True) for v in values], default=0) + 14
    scale = Scale(low, high, gutter, width - room, chart.log)
    classes = of_bars(chart)
    shapes: list[str] = []
    y, blocks = 4.0, []  # from where to where the lines of the grid go: through no group's name
    for at, category in enumerate(chart.categories):
        if grouped:
            y += GAP if at else 0
            for words in lines_of(category, width, bold=True):
                shapes.append(svg.text(0, y + 12, words, "group"))
                y += LINE + 3
        top = y
        for kind, series in zip(classes[at], chart.series, strict=True):
            name = series.name if grouped else category
            value = series.values[at]
            named, tall = _name(name, kind, gutter - 8, y)
            shapes += named
            shapes += _bar(chart, scale, value, y + tall / 2, kind, f"{category}, {name}")
            y += tall
        blocks.append((top, y))
    if not grouped:
        blocks = [(0.0, y)]
    return _grid(chart, scale, blocks) + shapes, y + AXIS


def _name(name: str, kind: str, right: float, y: float) -> tuple[list[str], float]:
    """The name of a row, to the left of its bar, and how tall the row is."""
    own = "own" if kind.startswith("own") and is_ours(name) else ""
    lines = lines_of(name, right, bold=bool(own))
    tall = max(ROW, LINE * len(lines) + 5)
    first = y + tall / 2 + 4.5 - LINE * (len(lines) - 1) / 2
    shapes = [svg.text(right, first + k * LINE, w, own, "end") for k, w in enumerate(lines)]
    return shapes, tall


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


def _grid(chart: Chart, scale: Scale, blocks: list[tuple[float, float]]) -> list[str]:
    shapes, bottom = [], blocks[-1][1] if blocks else 0.0
    taken = -1e9
    for tick in scale.ticks(max(2, int((scale.end - scale.start) / 42))):
        x, words = scale(tick), short(tick)
        half = width_of(words, 12) / 2
        shapes += [svg.line(x, top, x, end, "grid") for top, end in blocks]
        if x - half > taken + 6:
            shapes.append(svg.text(x, bottom + 14, words, "tick", "middle"))
            taken = x + half
    start = scale.start if chart.log else scale(0.0)
    shapes += [svg.line(start, top, start, end, "base") for top, end in blocks]
    unit = chart.unit + (", logarithmic" if chart.log else "")
    return [*shapes, svg.text(scale.start, bottom + 30, unit, "tick")]
