"""What a suite has to say, apart from how it is shown: sections of texts, tables and charts.

A suite makes a `Document`; `save` writes it as Markdown and as JSON, beside the plain results. The
page (``python -m benchmarks page``) is made of the documents in those JSON files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal


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


def bars(
    title: str, unit: str, names: Iterable[str], series: Mapping[str, Iterable[float | None]],
    log: bool = True,
) -> Chart | None:  # fmt: skip
    """A chart of bars for each name; None where there is no number."""
    there = _there(series)
    return Chart("bars", title, unit, list(names), there, log) if there else None


def lines(
    title: str, unit: str, x: Iterable[float], names: Iterable[str], x_title: str,
    series: Mapping[str, Iterable[float | None]], log: bool = True,
) -> Chart | None:  # fmt: skip
    """A chart of lines over ``x``; None where there is no number."""
    there = _there(series)
    return Chart("lines", title, unit, list(names), there, log, list(x), x_title) if there else None


def _there(series: Mapping[str, Iterable[float | None]]) -> list[Series]:
    every = [Series(name, list(values)) for name, values in series.items()]
    return [one for one in every if any(value is not None for value in one.values)]


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
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def parts(document: Document) -> Iterator[str | Chart]:
    """The document from beginning to end: pieces of Markdown, and charts among them."""
    yield f"# {document.title}"
    yield from (document.about, _where(document), document.warning)
    for section in document.sections:
        yield from (f"## {section.title}", section.text)
        for part in section.parts:
            if isinstance(part, Chart):
                yield part
            else:
                yield f"**{part.title}**" if part.title else ""
                yield from (grid([part.head, *part.rows]), part.note)
    if document.notes:
        yield from ("## Notes", "\n".join(f"- {note}" for note in document.notes))


def markdown(document: Document) -> str:
    """The whole document as Markdown, without its charts."""
    texts = (part for part in parts(document) if isinstance(part, str))
    return "\n\n".join(text for text in texts if text) + "\n"


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
    paths[1].write_text(_json({"document": _small(asdict(document), math.inf), **_small(results)}))
    return paths


_MOST = 5  # figures of one kind that are saved one by one


def _small(value: Any, most: float = _MOST) -> Any:
    """For JSON: six digits, and of more figures than ``most`` how many and their range."""
    if isinstance(value, Mapping):
        return {key: _small(each, most) for key, each in value.items()}
    if isinstance(value, list | tuple):
        if len(value) > most and all(isinstance(each, float) for each in value):
            shown = {"least": min(value), "median": median(value), "greatest": max(value)}
            return {"number": len(value), **_small(shown)}
        return [_small(each, most) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _json(value: Mapping[str, Any]) -> str:
    """Indented by one, but what holds no other list or object in one line."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    for opening, closing in ("[]", "{}"):
        # A line break is never inside a string, so this only matches the brackets of JSON itself.
        pattern = rf"\{opening}\n([^\[\]{{}}]*)\n *\{closing}"
        text = re.sub(pattern, lambda m: _one_line(m.group()), text)
    return text + "\n"


def _one_line(text: str) -> str:
    return re.sub(r"\n *", " ", text).replace("[ ", "[").replace(" ]", "]")


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
