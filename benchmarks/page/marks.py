"""The marks of lines: each has another form, so that colour is not all that tells them apart."""

from __future__ import annotations

from benchmarks.page.markdown import escape
from benchmarks.page.svg import fixed

__all__ = ["mark"]

_FORMS = (
    "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",  # a disc
    "M-4,-4h8v8h-8z",  # a square
    "M0,-5.5l5,9h-10z",  # a triangle
    "M0,-5.5l5.5,5.5l-5.5,5.5l-5.5,-5.5z",  # a lozenge
    "M0,5.5l5,-9h-10z",  # a triangle that stands on its tip
    "M-1.8,-5.5h3.6v3.7h3.7v3.6h-3.7v3.7h-3.6v-3.7h-3.7v-3.6h3.7z",  # a cross
)


def mark(at: int, x: float, y: float, kind: str, says: str = "") -> str:
    """The mark of the series number ``at``; ``says`` is shown when it is pointed at."""
    shape = f'<path d="{_FORMS[at % len(_FORMS)]}" transform="translate({fixed(x)},{fixed(y)})"'
    if not says:
        return f'{shape} class="{kind}"/>'
    return f'{shape} class="{kind}"><title>{escape(says)}</title></path>'
