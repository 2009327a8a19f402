"""A chart as a figure: drawn for a narrow and a wide place; the style shows the one that fits."""

from __future__ import annotations

from benchmarks.document import Chart
from benchmarks.page.bars import bars
from benchmarks.page.lines import lines
from benchmarks.page.markdown import block, escape, inline, plain
from benchmarks.page.scales import short
from benchmarks.page.stacked import stacked
from benchmarks.page.svg import fixed

__all__ = ["figure"]

WIDTHS = {"narrow": 330, "wide": 640}
_KINDS = {"bars": bars, "stacked": stacked, "lines": lines}
_NAMES = {"bars": "Bars", "stacked": "Stacked bars", "lines": "Lines"}


def figure(chart: Chart, key: str) -> str:
    """The chart as HTML; ``key`` makes its ids its own. Nothing where there is nothing to draw."""
    if not chart.categories or not chart.series:
        return ""
    note = f'<div class="note">{block(chart.note)}</div>' if chart.note else ""
    drawings = "\n".join(_drawn(chart, name, f"{key}-{name}") for name in WIDTHS)
    caption = f"<figcaption>{inline(chart.title)}</figcaption>"
    return f'<figure class="chart">\n{caption}\n{drawings}\n{note}</figure>'


def _drawn(chart: Chart, place: str, key: str) -> str:
    shapes, height = _KINDS[chart.kind](chart, WIDTHS[place])
    body = "\n".join(shapes)
    return (
        f'<svg class="{place}" viewBox="0 0 {WIDTHS[place]} {fixed(height)}" role="img" '
        f'aria-labelledby="{key}-t {key}-d">\n'
        f'<title id="{key}-t">{escape(plain(chart.title))}</title>\n'
        f'<desc id="{key}-d">{escape(_told(chart))}</desc>\n{body}\n</svg>'
    )


def _told(chart: Chart) -> str:
    """The chart in words, for those who cannot see it."""
    said = [f"{_NAMES[chart.kind]}, in {chart.unit}{', logarithmic' if chart.log else ''}."]
    for series in chart.series:
        pairs = zip(chart.categories, series.values, strict=True)
        values = [f"{name} {'none' if v is None else short(v)}" for name, v in pairs]
        said.append(f"{series.name}: {', '.join(values)}.")
    return " ".join(said)
