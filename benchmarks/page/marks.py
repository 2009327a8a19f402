"""The marks of lines: each has another form, so that colour is not all that tells them apart."""

from __future__ import annotations

from benchmarks.page.markdown import escape
from benchmarks.page.svg import fixed

__all__ = ["mark"]

_DISC = "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z"
_SQUARE = "M-4,-4h8v8h-8z"
_CROSS = "M-1.8,-5.5h3.6v3.7h3.7v3.6h-3.7v3.7h-3.6v-3.7h-3.7v-3.6h3.7z"
_FORMS = {
    "own0": _DISC,
    "own1": _SQUARE,
    "own2": _CROSS,
    "c0": _DISC,
    "c1": "M0,-5.5l5,9h-10z",  # a triangle
    "c2": "M0,-5.5l5.5,5.5l-5.5,5.5l-5.5,-5.5z",  # a lozenge
    "c3": "M0,5.5l5,-9h-10z",  # a triangle that stands on its tip
    "c4": _CROSS,
    "c5": _SQUARE,
    "c6": "M5.5,0l-9,5v-10z",  # a triangle that points to the right
    "c7": "M-5.5,0l9,5v-10z",  # to the left
}


def mark(x: float, y: float, kind: str, says: str = "") -> str:
    """The mark of a colour's class; ``says`` is shown when it is pointed at."""
    shape = f'<path d="{_FORMS[kind]}" transform="translate({fixed(x)},{fixed(y)})"'
    if not says:
        return f'{shape} class="{kind}"/>'
    return f'{shape} class="{kind}"><title>{escape(says)}</title></path>'
