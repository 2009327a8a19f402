"""The little Markdown that cells and texts are written in: bold, italics, code, lists.

Everything is escaped before it is looked at, so that no name of a file or a graph becomes markup.
"""

from __future__ import annotations

import html
import re

__all__ = ["block", "escape", "inline", "plain"]

_MARKS = re.compile(r"`([^`]+)`|\*\*(?=\S)(.+?)(?<=\S)\*\*|\*(?=[^\s*])([^*]+?)(?<=\S)\*")


def escape(text: str) -> str:
    """Text as it stands, for an element or an attribute in double quotes."""
    return html.escape(text, quote=True)


def inline(text: str) -> str:
    """One line or cell, as HTML."""
    parts, at = [], 0
    for found in _MARKS.finditer(text):
        parts.append(escape(text[at : found.start()]))
        code, bold, italics = found.groups()
        if code is not None:
            parts.append(f"<code>{escape(code)}</code>")
        elif bold is not None:
            parts.append(f"<strong>{inline(bold)}</strong>")
        else:
            parts.append(f"<em>{inline(italics)}</em>")
        at = found.end()
    return "".join([*parts, escape(text[at:])])


def plain(text: str) -> str:
    """One line or cell without its marks, not escaped."""
    return _MARKS.sub(lambda m: plain(next(g for g in m.groups() if g is not None)), text)


def block(text: str) -> str:
    """Paragraphs and lists, as HTML. A line of blanks ends each; "- " begins an item."""
    parts: list[str] = []
    for piece in re.split(r"\n\s*\n", text.strip()):
        words: list[str] = []
        items: list[str] = []
        for line in piece.splitlines():
            if line.startswith("- "):
                items.append(line[2:])
            elif items:
                items[-1] += " " + line.strip()
            else:
                words.append(line.strip())
        if words and any(words):
            parts.append(f"<p>{inline(' '.join(words))}</p>")
        if items:
            parts.append("<ul>" + "".join(f"<li>{inline(i)}</li>" for i in items) + "</ul>")
    return "\n".join(parts)
