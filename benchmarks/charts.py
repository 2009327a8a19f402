"""Draws a `Chart` with matplotlib, as SVG."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence

from benchmarks.document import Chart

_OURS = ("#0b5cad", "#4d94d6", "#8fbde6")
_OTHERS = ("#eb6a1b", "#53a45b", "#6d1d66", "#d078a0", "#5b4730", "#7c21ec", "#c9a20a", "#7f868e")
_SYSTEMS = (
    "graphx", "graphframes", "scipy", "igraph", "networkit", "pathway", "differential dataflow",
    "networkx",
)  # fmt: skip
"""Systems with the same color in every chart."""
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "vertexsdk", "font.size": 10}
_WIDTH, _ROW, _FRAME = 8.0, 0.23, 1.0  # inches


def colors(names: Sequence[str]) -> dict[str, str]:
    """A color for each name of a legend: ours is blue, a system has the same color everywhere."""
    taken: dict[str, str] = {}
    for name in names:
        if name.lower().startswith(("ours", "run()")):
            taken[name] = next((c for c in _OURS if c not in taken.values()), _OURS[-1])
        for system, color in zip(_SYSTEMS, _OTHERS, strict=True):
            if name.lower().startswith(system) and color not in taken.values():
                taken[name] = color
    free = [c for c in (_OURS[0], *_OTHERS, *_OURS[1:]) if c not in taken.values()]
    unknown = (name for name in names if name not in taken)
    return taken | {name: free[k % len(free)] for k, name in enumerate(unknown)}


def svg(chart: Chart) -> str:
    """The chart as an SVG document; the same chart gives the same text."""
    from matplotlib import rc_context  # only the page needs it
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        bars = len(chart.categories) * (len(chart.series) if chart.kind == "bars" else 1)
        height = (
            3.6 if chart.kind == "lines" else _FRAME + _ROW * bars + 0.1 * len(chart.categories)
        )
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot(title=chart.title.replace("$", r"\$"))
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
        {"bars": _bars, "stacked": _stacked, "lines": _lines}[chart.kind](chart, axes)
        if len(chart.series) > 1:
            axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def _numbers(chart: Chart, values: Sequence[float | None]) -> list[float]:
    """The values to draw; NaN where there is none, or where a logarithmic axis has no place."""
    return [math.nan if v is None or (chart.log and v <= 0) else v for v in values]


def _bars(chart: Chart, axes) -> None:  # type: ignore[no-untyped-def]
    """One lying bar for each category and series, with its number at its end."""
    several = len(chart.series) > 1
    color_of = colors([s.name for s in chart.series] if several else chart.categories)
    thickness = 0.85 / len(chart.series)
    for index, series in enumerate(chart.series):
        where = [k + index * thickness for k in range(len(chart.categories))]
        color = color_of[series.name] if several else [color_of[name] for name in chart.categories]
        drawn = axes.barh(
            where, _numbers(chart, series.values), thickness * 0.9, color=color, label=series.name
        )
        labels = [
            "–" if v is None else f"{v:,.0f}" if v >= 1000 else f"{v:.3g}" for v in series.values
        ]
        axes.bar_label(drawn, labels, padding=3, fontsize=8)
    middle = thickness * (len(chart.series) - 1) / 2
    axes.set_yticks([k + middle for k in range(len(chart.categories))], _wrapped(chart.categories))
    axes.invert_yaxis()
    if chart.log:
        axes.set_xscale("log")
        axes.set_xlim(*_decades(chart))
        axes.minorticks_off()
    else:
        axes.margins(x=0.15)
    axes.grid(axis="x", color="#e6e9ee")
    axes.set_xlabel(chart.unit)


def _stacked(chart: Chart, axes) -> None:  # type: ignore[no-untyped-def]
    """One lying bar for each category, its parts the series."""
    left = [0.0] * len(chart.categories)
    color_of = colors([s.name for s in chart.series])
    for index, series in enumerate(chart.series):
        width = [v or 0.0 for v in series.values]
        color, hatch = color_of[series.name], "" if index < len(_OURS) + len(_OTHERS) else "///"
        axes.barh(range(len(width)), width, left=left, color=color, hatch=hatch, label=series.name)
        left = [a + b for a, b in zip(left, width, strict=True)]
    axes.set_yticks(range(len(chart.categories)), _wrapped(chart.categories))
    axes.invert_yaxis()
    axes.grid(axis="x", color="#e6e9ee")
    axes.set_xlabel(chart.unit)


def _decades(chart: Chart) -> tuple[float, float]:
    """The powers of ten around all values."""
    values = [v for s in chart.series for v in s.values if v is not None and v > 0] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _wrapped(names: Sequence[str]) -> list[str]:
    return [textwrap.fill(name, 40) for name in names]


def _lines(chart: Chart, axes) -> None:  # type: ignore[no-untyped-def]
    """A line for each series over the numbers of the categories."""
    color_of = colors([s.name for s in chart.series])
    for index, series in enumerate(chart.series):
        color, marker = color_of[series.name], "osD^vP*X"[index % 8]
        axes.plot(
            chart.x, _numbers(chart, series.values), color=color, marker=marker, label=series.name
        )
    if chart.log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(*_decades(chart))
        axes.set_xticks(chart.x, chart.categories, rotation=30, ha="right")
        axes.minorticks_off()
    axes.grid(color="#e6e9ee")
    axes.set_xlabel(chart.x_title)
    axes.set_ylabel(chart.unit)
