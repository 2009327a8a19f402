"""The top of the page: a card for every run, with its aims and warnings."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.document import Document
from benchmarks.page.found import Found
from benchmarks.page.markdown import escape, inline
from benchmarks.verdicts import verdicts, wrong_answers

__all__ = ["aims_in_short", "overview", "tag"]


def overview(found: Sequence[Found]) -> str:
    """A card for each document."""
    cards = "\n".join(_card(each) for each in found)
    return (
        '<header class="top" id="top">\n<h1>Benchmarks of vertexsdk</h1>\n'
        "<p>Ours beside what a user would pick instead. Every system ran in turn in one session; "
        "answers were checked before any time was kept. Each run states its command, so that you "
        f'can repeat it.</p>\n</header>\n<ul class="cards">\n{cards}\n</ul>'
    )


def _card(found: Found) -> str:
    document = found.document
    warning = '<span class="badge warn">⚠ not to be quoted</span>' if document.warning else ""
    date = escape(str(document.machine["date"])[:10])
    return (
        f'<li><a href="#{escape(found.stem)}"><span class="suite-name">{escape(document.suite)}'
        f"</span>{tag(found.label)}</a>"
        f'<p>{inline(document.about)}</p><p class="state">{aims_in_short(document)}{warning}'
        f'<time datetime="{date}">{date}</time></p></li>'
    )


def tag(label: str) -> str:
    """A name in a frame, where there is one."""
    return f'<span class="tag">{escape(label)}</span>' if label else ""


def aims_in_short(document: Document) -> str:
    """How many aims were reached, and how many answers are wrong, as badges."""
    wrong = len(wrong_answers(document))
    said = f'<span class="badge bad">✗ {wrong} wrong</span>' if wrong else ""
    judged = [v for v in verdicts(document) if v.reached is not None]
    if not judged:
        return said
    reached = sum(bool(v.reached) for v in judged)
    kind, sign = ("good", "✓") if reached == len(judged) else ("bad", "✗")
    return f'{said}<span class="badge {kind}">{sign} {reached} of {len(judged)} aims reached</span>'
