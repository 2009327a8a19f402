"""A table as HTML: numbers to the right, what is said beside them small, verdicts as badges."""

from __future__ import annotations

import re

from benchmarks.document import Table
from benchmarks.page.markdown import block, escape, inline, plain
from benchmarks.verdicts import is_judged

__all__ = ["table"]

_NUMBER = re.compile(r"\s*(⚠\s*)?[~><≥≤±–-]?\s*\d")
_EMPTY = ("", "–", "-", "—")
_UNIT = r"(?: [^\s(\d⚠~][^\s(]*)?"
_MAIN = re.compile(
    rf"(⚠?\s*(?:\*\*[^*]+\*\*{_UNIT}|[~>]?\s?\d[^\s(]*{_UNIT}(?= \()))\s+([(\d⚠~].*)", re.DOTALL
)
_SIGNS = {"✓": '<span class="kept">✓</span>', "✗": '<span class="broken">✗</span>'}
_BRIEF = 30  # letters: a row's name so long is in one line where there is room
_BADGES = {"reached": "good", "not reached": "bad", "exact": "good"}


def table(shown: Table, name: str) -> str:
    """The table; ``name`` tells those who cannot see it what it is, where it has no title."""
    numbers = [_is_number(shown, at) for at in range(len(shown.head))]
    head = "".join(
        f'<th scope="col"{_kind(number)}>{inline(cell)}</th>'
        for cell, number in zip(shown.head, numbers, strict=True)
    )
    rows = "\n".join(f"<tr>{_row(row, numbers)}</tr>" for row in shown.rows)
    title = f'<p class="title">{inline(shown.title)}</p>' if shown.title else ""
    note = f'<div class="note">{block(shown.note)}</div>' if shown.note else ""
    label = escape(plain(shown.title) or name)
    aims = " aims" if is_judged(shown) else ""
    return (
        f'<div class="table{aims}">{title}<div class="scroll" role="region" tabindex="0" '
        f'aria-label="Table: {label}"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>{note}</div>"
    )


def _row(row: list[str], numbers: list[bool]) -> str:
    brief = ' class="brief"' if row and len(plain(row[0])) <= _BRIEF else ""
    first = f'<th scope="row"{brief}>{inline(row[0])}</th>' if row else ""
    # A row may be longer or shorter than the head: what it says is shown all the same.
    rest = numbers[1:] + [False] * (len(row) - len(numbers))
    return first + "".join(
        f"<td{_kind(number, cell)}>{_cell(cell)}</td>"
        for cell, number in zip(row[1:], rest, strict=False)
    )


def _kind(number: bool, cell: str = "") -> str:
    long = ' class="long"' if len(plain(cell)) > _BRIEF else ""
    return ' class="number"' if number else long


def _is_number(shown: Table, at: int) -> bool:
    cells = [plain(row[at]).strip() for row in shown.rows if at < len(row)]
    cells = [cell for cell in cells if cell not in _EMPTY]
    found = sum(bool(_NUMBER.match(cell)) for cell in cells)
    return at > 0 and bool(cells) and 2 * found > len(cells)


def _cell(cell: str) -> str:
    badge = _BADGES.get(plain(cell).strip())
    if badge:
        sign = "✓" if badge == "good" else "✗"
        return f'<span class="badge {badge}">{sign} {escape(plain(cell).strip())}</span>'
    if "wrong answer" in cell.lower():
        return f'<strong class="broken">{inline(cell)}</strong>'
    both = _MAIN.fullmatch(cell.strip())
    if both:
        return f'{_signed(both.group(1))} <span class="rest">{_signed(both.group(2))}</span>'
    return _signed(cell)


def _signed(text: str) -> str:
    """With the signs of aims in colour."""
    return re.sub("[✓✗]", lambda found: _SIGNS[found.group()], inline(text))
