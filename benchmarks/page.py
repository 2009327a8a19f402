"""``python -m benchmarks page``: one HTML file of the newest results, with charts.

The page is made of the documents that suites saved: their Markdown by markdown-it, their charts by
matplotlib. It fetches nothing and runs no script.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.charts import svg
from benchmarks.document import Chart, Document, opened, parts
from benchmarks.targets import verdicts, wrong_answers

SUITES = ("batch", "evolving", "state", "asynchrony", "scaling", "examples", "profile", "soak")
"""In the order in which the page shows them."""

_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_SCALE = re.compile(r"-r-mat-(\d+)$")
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>vertexsdk benchmarks</title>
<style>
{style}</style>
</head>
<body>
<h1>Benchmarks of vertexsdk</h1>
<p>Vertexsdk beside what a user would pick instead. In each run the systems took turns on one
machine, and every answer was checked before its time was kept.</p>
{overview}
{results}
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Result:
    """A document, and the name of its file without the date."""

    stem: str
    document: Document


def main(arguments: list[str]) -> int:
    """Write the page. Exit status 0; 2 if there is no result, or the file cannot be written."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks page", description=__doc__)
    add = parser.add_argument
    add("--results", metavar="DIR", default="benchmarks/results", help="where the results are")
    add("--out", metavar="FILE", help="the page (default: index.html among the results)")
    options = parser.parse_args(arguments)
    results = Path(options.results)
    try:
        path = write(results, Path(options.out) if options.out else results / "index.html")
    except (ImportError, OSError, ValueError) as error:
        print(f"page: {error}", file=sys.stderr)
        return 2
    print(f"written: {path}", file=sys.stderr)
    return 0


def write(results: Path, out: Path) -> Path:
    """Write the page of the results in a folder.

    Raises:
        ValueError: the folder has no result with a document.
    """
    shown = newest(results)
    if not shown:
        raise ValueError(f"no result with a document in {results}; run a suite first")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(html(shown), encoding="utf-8")
    return out


def newest(folder: Path) -> list[Result]:
    """The newest result of every stem: by suite, then from large R-MAT graphs to small ones."""
    latest: dict[str, tuple[str, Document]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            document = opened(json.loads(path.read_text())["document"])
            date, stem = str(document.machine["date"]), _DATE.sub("", path.stem)
        except (OSError, ValueError, TypeError, KeyError) as error:
            print(f"page: left out {path.name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        if stem not in latest or latest[stem][0] < date:
            latest[stem] = date, document
    results = [Result(stem, document) for stem, (_, document) in latest.items()]
    return sorted(results, key=lambda r: _order(r.document.suite, r.stem))


def _order(suite: str, stem: str) -> tuple[int, str, int, str]:
    scale = _SCALE.search(stem)
    position = SUITES.index(suite) if suite in SUITES else len(SUITES)
    return position, suite, -int(scale.group(1)) if scale else 0, stem


def html(results: Sequence[Result]) -> str:
    """The whole page."""
    from markdown_it import MarkdownIt  # only the page needs it

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    sections = []
    for result in results:
        body = [
            _figure(part) if isinstance(part, Chart) else markdown.render(part)
            for part in parts(result.document)
        ]
        sections.append(f'<section id="{escape(result.stem)}">\n{"".join(body)}</section>')
    return _PAGE.format(
        style=Path(__file__).with_name("page.css").read_text(),
        overview=_overview(results),
        results="\n".join(sections),
    )


def _figure(chart: Chart) -> str:
    if not any(v is not None for series in chart.series for v in series.values):
        return ""
    data = base64.b64encode(svg(chart).encode()).decode()
    return f'<img alt="{escape(chart.title)}" src="data:image/svg+xml;base64,{data}">\n'


def _overview(results: Sequence[Result]) -> str:
    """A table of all runs: what each compares, when, and how many of its targets were met."""
    rows = []
    for result in results:
        document = result.document
        judged = [v for v in verdicts(document) if v.met is not None]
        wrong = len(wrong_answers(document))
        remarks = [f"<strong>{wrong} wrong answers</strong>"] if wrong else []
        if judged:
            remarks.append(f"{sum(bool(v.met) for v in judged)} of {len(judged)} aims reached")
        if document.warning:
            remarks.append("⚠ not to be quoted")
        link = f'<a href="#{escape(result.stem)}">{escape(result.stem)}</a>'
        date = escape(str(document.machine["date"])[:10])
        cells = [link, escape(document.about), date, "; ".join(remarks)]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "<tr><th>run</th><th>what it compares</th><th>date</th><th>outcome</th></tr>"
    return "<table>\n" + "\n".join([head, *rows]) + "\n</table>"
