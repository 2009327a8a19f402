"""Draws a `Chart` with pandas and matplotlib, as SVG."""

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
    from pandas import DataFrame

    lines, several = chart.kind == "lines", len(chart.series) > 1
    values = [_numbers(chart, series.values) for series in chart.series]
    data = DataFrame(
        dict(enumerate(values)), index=chart.x if lines else _wrapped(chart.categories)
    )
    by_name = colors([s.name for s in chart.series] if several else chart.categories)
    by_series = [by_name.get(series.name, _OURS[0]) for series in chart.series]
    with rc_context(_STYLE):
        bars = len(chart.categories) * (len(chart.series) if chart.kind == "bars" else 1)
        height = 3.6 if lines else _FRAME + _ROW * bars + 0.1 * len(chart.categories)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot(title=chart.title.replace("$", r"\$"))
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
        options = {"ax": axes, "legend": False}
        if lines:
            markers = ["osD^vP*X"[k % 8] + "-" for k in range(len(chart.series))]
            data.plot(**options, style=markers, color=by_series, loglog=chart.log)
        elif several or chart.kind == "stacked":
            data.plot.barh(**options, width=0.8, color=by_series, stacked=chart.kind == "stacked")
        else:
            data[0].plot.barh(**options, width=0.8, color=[by_name[n] for n in chart.categories])
        _finish(chart, axes)
        if several:
            told = [series.name for series in chart.series]
            axes.legend(
                axes.lines if lines else axes.containers, told, frameon=False, fontsize=8,
                loc="center left", bbox_to_anchor=(1, 0.5),
            )  # fmt: skip
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def _finish(chart: Chart, axes) -> None:  # type: ignore[no-untyped-def]
    """Set the scales, the labels of axes, and the numbers at the ends of bars."""
    axes.grid(axis="both" if chart.kind == "lines" else "x", color="#e6e9ee")
    axes.set_xlabel(chart.x_title if chart.kind == "lines" else chart.unit)
    axes.set_ylabel(chart.unit if chart.kind == "lines" else "")
    if chart.kind == "lines":
        if chart.log:
            axes.set_ylim(*_decades(chart))
            axes.set_xticks(chart.x, chart.categories, rotation=30, ha="right")
            axes.minorticks_off()
        return
    axes.invert_yaxis()
    if chart.kind == "stacked":
        return
    for drawn, series in zip(axes.containers, chart.series, strict=True):
        labels = [
            "–" if v is None else f"{v:,.0f}" if v >= 1000 else f"{v:.3g}" for v in series.values
        ]
        axes.bar_label(drawn, labels, padding=3, fontsize=8)
    if chart.log:
        axes.set_xscale("log")
        axes.set_xlim(*_decades(chart))
        axes.minorticks_off()
    else:
        axes.margins(x=0.15)


def _numbers(chart: Chart, values: Sequence[float | None]) -> list[float]:
    """The values to draw; NaN where there is none, or where a logarithmic axis has no place."""
    return [math.nan if v is None or (chart.log and v <= 0) else v for v in values]


def _decades(chart: Chart) -> tuple[float, float]:
    """The powers of ten around all values."""
    values = [v for s in chart.series for v in s.values if v is not None and v > 0] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _wrapped(names: Sequence[str]) -> list[str]:
    return [textwrap.fill(name, 40) for name in names]
