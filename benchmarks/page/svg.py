"""The few shapes that charts are made of."""

from __future__ import annotations

from benchmarks.page.markdown import escape

__all__ = ["fixed", "line", "rect", "text"]


def fixed(number: float) -> str:
    """A coordinate: two decimals are finer than any screen."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    """A line of text that ends, begins or has its middle (``anchor``) at x."""
    more = f' class="{kind}"' if kind else ""
    more += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{fixed(x)}" y="{fixed(y)}"{more}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    ends = f'x1="{fixed(x1)}" y1="{fixed(y1)}" x2="{fixed(x2)}" y2="{fixed(y2)}"'
    return f'<line {ends} class="{kind}"/>'


def rect(x: float, y: float, width: float, height: float, kind: str, says: str = "") -> str:
    """A bar or a swatch; ``says`` is shown when it is pointed at."""
    at = f'x="{fixed(x)}" y="{fixed(y)}" width="{fixed(width)}" height="{fixed(height)}"'
    if not says:
        return f'<rect {at} class="{kind}"/>'
    return f'<rect {at} class="{kind}"><title>{escape(says)}</title></rect>'
