"""What a suite has to say, apart from how it is shown: sections of texts, tables and charts.

A suite makes a `Document`; `save` writes it as Markdown and as JSON, beside the plain results. The
page (``python -m benchmarks page``) is made of the documents in those JSON files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["Chart", "Document", "Section", "Series", "Table", "grid", "markdown", "opened", "save"]


@dataclass(slots=True)
class Table:
    """A table of cells in Markdown (bold, code); the first column names the row."""

    head: list[str]
    rows: list[list[str]]
    title: str = ""
    note: str = ""


@dataclass(slots=True)
class Series:
    """One name in a chart's legend, and a value for each of its categories; None where none is."""

    name: str
    values: list[float | None]


@dataclass(slots=True)
class Chart:
    """Numbers to be drawn; Markdown leaves them out, so a table says the same.

    ``kind``: "bars", one bar for each category and series; "stacked", one bar for each category,
    its parts the series; "lines", a line for each series over ``x``, the categories' numbers.
    ``log``: both axes of lines, or the length of bars, are logarithmic.
    """

    kind: Literal["bars", "stacked", "lines"]
    title: str
    unit: str
    categories: list[str]
    series: list[Series]
    log: bool = False
    x: list[float] = field(default_factory=list)
    x_title: str = ""
    note: str = ""


@dataclass(slots=True)
class Section:
    """A heading, a text in Markdown, and what stands under it."""

    title: str
    text: str = ""
    parts: list[Table | Chart] = field(default_factory=list)


@dataclass(slots=True)
class Document:
    """All that one run of a suite says.

    ``about`` tells in a sentence or two what is compared; ``command``, `benchmarks.machine` and
    ``settings`` (as ``2 of 2 cores used``) how it came about. ``warning``: why its numbers are not
    to be quoted; empty when they are.
    """

    suite: str
    title: str
    about: str
    command: str
    machine: dict[str, Any]
    settings: str = ""
    warning: str = ""
    sections: list[Section] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def grid(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def markdown(document: Document) -> str:
    """The whole document as Markdown, without its charts."""
    parts = [f"# {document.title}", document.about, _where(document), document.warning]
    for section in document.sections:
        parts += [f"## {section.title}", section.text]
        for part in section.parts:
            if isinstance(part, Table):
                title = f"**{part.title}**" if part.title else ""
                parts += [title, grid([part.head, *part.rows]), part.note]
    if document.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in document.notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _where(document: Document) -> str:
    m = document.machine
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    settings = f" {document.settings};" if document.settings else ""
    return (
        f"`{document.command}`  \n"
        f"{m['date']}; {m['processor']}, {m['cores']} cores, {m['memory'] / 2**30:.0f} GiB;"
        f"{settings} {m['system']}, Python {m['python']}; {versions}; revision {m['revision']}; "
        f"load average at the start {m['load_average']}."
    )


def save(document: Document, results: Mapping[str, Any], out: Path, stem: str) -> list[Path]:
    """Write ``STEM-DATE.md`` and ``.json``, the document with the plain ``results`` beside it.

    Returns:
        The two paths.
    """
    out.mkdir(parents=True, exist_ok=True)
    name = f"{stem}-{str(document.machine['date'])[:10]}"
    paths = [out / f"{name}{end}" for end in (".md", ".json")]
    paths[0].write_text(markdown(document))
    paths[1].write_text(json.dumps({"document": asdict(document), **results}, indent=1) + "\n")
    return paths


def opened(plain: Mapping[str, Any]) -> Document:
    """The document of a JSON file's ``document``."""
    return Document(**{**plain, "sections": [_section(each) for each in plain["sections"]]})


def _section(plain: Mapping[str, Any]) -> Section:
    return Section(plain["title"], plain["text"], list(_parts(plain["parts"])))


def _parts(plain: Iterable[Mapping[str, Any]]) -> Iterable[Table | Chart]:
    for part in plain:
        if "kind" in part:
            yield Chart(**{**part, "series": [Series(**each) for each in part["series"]]})
        else:
            yield Table(**part)
