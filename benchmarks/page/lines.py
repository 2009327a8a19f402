"""Lines over an axis of numbers, each with its name at its end."""

from __future__ import annotations

from benchmarks.document import Chart
from benchmarks.page import svg
from benchmarks.page.colours import is_ours, of_series
from benchmarks.page.legends import legend
from benchmarks.page.marks import mark
from benchmarks.page.scales import Scale, short, span
from benchmarks.page.words import width_of

__all__ = ["lines"]

APART = 18  # pixels between the names at the ends
Point = tuple[float, float]


def lines(chart: Chart, width: int) -> tuple[list[str], float]:
    """The chart's shapes, and its height."""
    xs = chart.x or [float(k) for k in range(len(chart.categories))]
    names, classes = [s.name for s in chart.series], of_series([s.name for s in chart.series])
    points = [_points(chart, xs, k) for k in range(len(names))]
    longest = max([width_of(n, bold=is_ours(n)) for n in names], default=0) + 34
    beside = width > 500 and longest <= width * 0.4
    shapes, top = ([], 4.0) if beside else legend(names, classes, width, marked=True)
    shapes.append(svg.text(0, top + 11, chart.unit, "tick"))
    top += 26
    tall = max(width * 0.42, 200.0, APART * len(names) if beside else 0)
    low, high = span([y for each in points for _, y in each], chart.log, zero=not chart.log)
    y = Scale(low, high, top + tall, top, chart.log)
    left = max(width_of(short(t), 12) for t in y.ticks()) + 8
    across = [x for x in xs if not chart.log or x > 0]
    first, last = (min(across), max(across)) if across else (1.0, 10.0)
    if first == last:
        first, last = (first / 2, last * 2) if chart.log else (first - 1, last + 1)
    x = Scale(first, last, left + 8, width - (longest if beside else 10), chart.log)
    shapes += _axes(chart, x, y, left, width, xs)
    order = sorted(range(len(names)), key=lambda k: is_ours(names[k]))  # ours on top
    for k in order:
        shapes += _line(chart, x, y, points[k], k, classes[k])
    if beside:
        shapes += _names(names, classes, points, x, y)
    if chart.x_title:
        shapes.append(svg.text(x.end, y.start + 34, chart.x_title, "tick", "end"))
    return shapes, y.start + (42 if chart.x_title else 24)


def _points(chart: Chart, xs: list[float], at: int) -> list[Point]:
    pairs = zip(xs, chart.series[at].values, strict=True)
    found = [(x, v) for x, v in pairs if v is not None]
    return sorted((x, v) for x, v in found if not chart.log or (x > 0 and v > 0))


def _line(chart: Chart, x: Scale, y: Scale, points: list[Point], at: int, kind: str) -> list[str]:
    path = " ".join(f"{svg.fixed(x(a))},{svg.fixed(y(b))}" for a, b in points)
    name = chart.series[at].name
    marks = [
        mark(x(a), y(b), kind, f"{name}, {chart.x_title} {short(a)}: {short(b)} {chart.unit}")
        for a, b in points
    ]
    return [f'<polyline points="{path}" class="line {kind}"/>', *marks] if points else []


def _axes(chart: Chart, x: Scale, y: Scale, left: float, edge: float, xs: list[float]) -> list[str]:
    shapes = []
    for tick in y.ticks():
        shapes.append(svg.line(left, y(tick), x.end, y(tick), "grid"))
        shapes.append(svg.text(left - 6, y(tick) + 4, short(tick), "tick", "end"))
    shapes.append(svg.line(left, y.start, x.end, y.start, "base"))
    taken = -1e9
    for at, words in _across(chart, x, xs):
        half = width_of(words, 12) / 2
        shapes.append(svg.line(x(at), y.start, x(at), y.start + 4, "base"))
        middle = min(x(at), edge - half)
        if middle - half > taken + 8:
            shapes.append(svg.text(middle, y.start + 18, words, "tick", "middle"))
            taken = middle + half
    return shapes


def _across(chart: Chart, x: Scale, xs: list[float]) -> list[tuple[float, str]]:
    """What is written under the axis: the categories where they are few."""
    if len(xs) <= 12:
        named = sorted(zip(xs, chart.categories, strict=True))
        return [(at, words) for at, words in named if not chart.log or at > 0]
    return [(tick, short(tick)) for tick in x.ticks(6)]


def _names(
    names: list[str], classes: list[str], points: list[list[Point]], x: Scale, y: Scale
) -> list[str]:
    """Names at the right edge, moved apart, each with a thin line to the end of its own."""
    ends = [(y(each[-1][1]), x(each[-1][0]), k) for k, each in enumerate(points) if each]
    places = apart([height for height, _, _ in sorted(ends)], y.end, y.start)
    shapes = []
    for (height, right, k), place in zip(sorted(ends), places, strict=True):
        edge = x.end + 14
        if abs(place - height) > 2 or right < x.end - 1:
            shapes.append(svg.line(right + 6, height, edge - 2, place, f"lead {classes[k]}"))
        own = classes[k].startswith("own") and is_ours(names[k])
        kind = "own" if own else f"name-{classes[k]}"
        shapes.append(mark(edge + 5, place, classes[k]))
        shapes.append(svg.text(edge + 15, place + 4.5, names[k], kind))
    return shapes


def apart(heights: list[float], top: float, bottom: float) -> list[float]:
    """Heights, in order, moved as little as need be so that none is nearer than `APART`."""
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + APART) if places else max(height, top))
    limit = bottom
    for k in reversed(range(len(places))):
        places[k] = min(places[k], limit)
        limit = places[k] - APART
    return places
