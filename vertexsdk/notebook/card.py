"""A summary of an object: one line for `repr`, and a table in HTML for a notebook.

Names, ids and values come from users and their data, so all text is shortened and escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vertexsdk.errors import shorten

MOST, LINE = 60, 300  # characters of a value in a table, and of a fact


def summary_line(kind: str, facts: Mapping[str, Any]) -> str:
    """Return facts as one line.

    >>> summary_line("Graph", {"vertices": 3, "edges": 2000})
    'Graph(vertices: 3, edges: 2,000)'
    """
    return f"{kind}({', '.join(f'{name}: {as_text(value)}' for name, value in facts.items())})"


def card(title: str, facts: Mapping[str, Any], rows: Rows | None = None) -> str:
    """Return facts as HTML: a title, and a table of names and values.

    Args:
        title: the card's title.
        facts: values by name.
        rows: names of columns and their rows, shown as a second table.

    >>> card("Graph", {"ids": "<b>"})
    '<div><strong>Graph</strong><table><tr><th>ids</th><td>&lt;b&gt;</td></tr></table></div>'
    """
    lines = "".join(
        f"<tr>{_cell(name, 'th')}{_cell(x, most=LINE)}</tr>" for name, x in facts.items()
    )
    more = "" if rows is None else table(*rows)
    return f"<div><strong>{html.escape(title)}</strong><table>{lines}</table>{more}</div>"


Rows = tuple[Sequence[str], Iterable[Sequence[Any]]]


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as an HTML table with a head.

    >>> table(["id"], [[7]])
    '<table><thead><tr><th>id</th></tr></thead><tbody><tr><td>7</td></tr></tbody></table>'
    """
    head = "".join(_cell(name, "th") for name in names)
    body = "".join(f"<tr>{''.join(_cell(x) for x in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any, tag: str = "td", most: int = MOST) -> str:
    return f"<{tag}>{html.escape(as_text(value, most))}</{tag}>"


def as_text(value: Any, most: int = MOST) -> str:
    """Return a value as text: numbers with separators, long texts shortened.

    >>> as_text(1234567), as_text(0.123456789), as_text(None)
    ('1,234,567', '0.123457', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}" if math.isfinite(value) else str(value)
    return shorten(str(value), most)


def size_text(count: float) -> str:
    """Return a number of bytes as text.

    >>> size_text(3_500_000), size_text(512)
    ('3.3 MiB', '512 B')
    """
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} B"


def seconds_text(seconds: float) -> str:
    """Return a duration as text.

    >>> seconds_text(0.0123), seconds_text(4.5), seconds_text(7200)
    ('12 ms', '4.5 s', '2.0 h')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
