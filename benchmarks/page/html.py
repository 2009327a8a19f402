"""The page around the documents: its top, the ways through it, the head of each run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, groupby
from pathlib import Path
from typing import Any

from benchmarks.document import Chart, Document, Section
from benchmarks.page.charts import figure
from benchmarks.page.found import Found
from benchmarks.page.markdown import block, escape, inline
from benchmarks.page.overview import aims_in_short, overview, tag
from benchmarks.page.tables import table

__all__ = ["page"]

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>vertexsdk benchmarks</title>
<style>
{style}
</style>
</head>
<body>
<a class="skip" href="#results">Skip to the results</a>
<nav aria-label="Suites">
<a class="home" href="#top">vertexsdk <span>benchmarks</span></a>
<ul>
{links}
</ul>
</nav>
<main id="results">
{top}
{suites}
</main>
</body>
</html>
"""


def page(found: Sequence[Found]) -> str:
    """All of it, out of documents in the order in which they are shown."""
    suites = [(name, list(each)) for name, each in groupby(found, lambda f: f.document.suite)]
    numbers = count(1)
    return _PAGE.format(
        style=Path(__file__).with_name("style.css").read_text(),
        links="\n".join(_links(name, each) for name, each in suites),
        top=overview(found),
        suites="\n".join(_suite(name, each, numbers) for name, each in suites),
    )


def _links(name: str, found: list[Found]) -> str:
    first = f'<a href="#{escape(found[0].stem)}">{escape(name)}</a>'
    if len(found) == 1:
        return f"<li>{first}</li>"
    each = "".join(
        f'<li><a href="#{escape(f.stem)}">{escape(f.label or name)}</a></li>' for f in found
    )
    return f"<li>{first}<ul>{each}</ul></li>"


def _suite(name: str, found: list[Found], numbers: count[int]) -> str:
    articles = "\n".join(_article(each, numbers) for each in found)
    label = f"suite-{escape(name)}"
    head = f'<h2 id="{label}"><span>Suite</span> {escape(name)}</h2>'
    return f'<section class="suite" aria-labelledby="{label}">\n{head}\n{articles}\n</section>'


def _article(found: Found, numbers: count[int]) -> str:
    document = found.document
    sections = "\n".join(_section(each, numbers) for each in document.sections)
    notes = "".join(f"<li>{inline(note)}</li>" for note in document.notes)
    if notes:
        number = len(document.notes)
        notes = f"<details><summary>Notes ({number})</summary>\n<ul>{notes}</ul></details>"
    warning = document.warning
    if warning:
        warning = f'<div class="warning" role="note"><span>⚠</span>{block(warning)}</div>'
    title = _title(found)
    told = found.label.lower() in title.lower()
    return (
        f'<article id="{escape(found.stem)}">\n<header>\n'
        f"<h3>{inline(title)} {'' if told else tag(found.label)}"
        f"{aims_in_short(document)}</h3>\n{block(document.about)}\n{warning}\n{_run(document)}\n</header>\n"
        f"{sections}\n{notes}</article>"
    )


def _title(found: Found) -> str:
    """The title without the name of the suite, which stands above it."""
    title, suite = found.document.title, found.document.suite
    start = f"suite {suite}"
    if not title.lower().startswith(start.lower()):
        return title
    rest = title[len(start) :].lstrip(" :,")
    return rest[:1].upper() + rest[1:] or found.label or title


def _run(document: Document) -> str:
    """The command, and where and with what it ran."""
    machine = document.machine
    facts: dict[str, Any] = {
        "date": machine["date"],
        "machine": f"{machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory'] / 2**30:.0f} GiB",
        "settings": document.settings,
        "system": f"{machine['system']}, Python {machine['python']}",
        "versions": ", ".join(f"{name} {v}" for name, v in machine["versions"].items()),
        "revision": machine["revision"],
        "load at the start": machine["load_average"],
    }
    pairs = "".join(
        f"<div><dt>{name}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in facts.items()
        if str(value)
    )
    command = escape(document.command)
    return (
        f'<div class="run"><pre aria-label="Command"><code>{command}</code></pre>\n'
        f"<dl>{pairs}</dl></div>"
    )


def _section(section: Section, numbers: count[int]) -> str:
    parts: list[str] = []
    for is_chart, each in groupby(section.parts, lambda part: isinstance(part, Chart)):
        if is_chart:
            figures = [figure(p, f"chart-{next(numbers)}") for p in each if isinstance(p, Chart)]
            parts.append('<div class="charts">\n' + "\n".join(figures) + "\n</div>")
        else:
            parts += [table(p, section.title) for p in each if not isinstance(p, Chart)]
    body = "\n".join(parts)
    return f"<section>\n<h4>{inline(section.title)}</h4>\n{block(section.text)}\n{body}\n</section>"
