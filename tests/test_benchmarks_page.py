"""The page: well-formed, nothing injected, nothing left out, charts in proportion. No Spark."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("benchmarks")

from benchmarks import document
from benchmarks.document import Chart, Document, Section, Series, Table
from benchmarks.page import command, words
from benchmarks.page.bars import bars
from benchmarks.page.colours import PALETTE, of_bars, of_series
from benchmarks.page.found import newest
from benchmarks.page.lines import APART, apart, lines
from benchmarks.page.markdown import block, inline, plain
from benchmarks.page.scales import Scale, short, span
from benchmarks.page.stacked import stacked
from benchmarks.page.tables import table
from benchmarks.verdicts import verdicts, wrong_answers

EVIL = "</td><script>alert('x')</script>&<b a=\"1\">"
MACHINE = {
    "date": "2026-01-02 03:04 UTC", "processor": "P <1>", "cores": 2, "memory": 8 << 30,
    "load_average": 0.5, "system": "Linux", "python": "3.11", "revision": "abc",
    "versions": {"numpy": "2.4"},
}  # fmt: skip
BARS = Chart(
    "bars", "Seconds", "s", ["load", "run"],
    [Series("ours", [1.0, 0.5]), Series("GraphX", [10.0, None])], log=True,
)  # fmt: skip
LINES = Chart(
    "lines", "Growth", "s", ["10", "100", "1000"],
    [Series("ours", [0.1, 1, 10]), Series("SciPy", [0.2, 0.4, None])],
    log=True, x=[10, 100, 1000], x_title="edges",
)  # fmt: skip
STACKED = Chart(
    "stacked", "Parts", "s", ["one", "two"], [Series("kernel", [1, 3]), Series("commit", [2, None])]
)
AIMS = Table(
    ["what ours must reach", "measured", "aim", ""],
    [["load", "1.75 s", "≤ 8", "reached"], ["run", "26.8 ×", "≥ 40", "**not reached**"],
     ["hop", "21 ms", "≤ 60", "machine not quiet"]],
)  # fmt: skip
TIMES = Table(
    ["", "ours", EVIL],
    [["load", "**1.75** (3, 1.69 to 1.85)", "24.8"], [EVIL, "–", "wrong answer: 3 differ"]],
    EVIL, EVIL,
)  # fmt: skip


@pytest.fixture
def sample() -> Document:
    sections = [Section("Times " + EVIL, "A text.\n\n- " + EVIL, [BARS, LINES, STACKED, TIMES])]
    sections.append(Section("Aims", parts=[AIMS]))
    about, settings, warning = "What `is` **compared**.", "2 of 2 cores used", "Not quiet: " + EVIL
    return Document(
        "batch", "Title " + EVIL, about, "./dev bench batch --edges '" + EVIL + "'", MACHINE,
        settings, warning, sections, [EVIL, "a note"],
    )  # fmt: skip


class Reader(HTMLParser):
    """Fails on what is not well-formed; keeps elements, attributes and text."""

    VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in {tag}"
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page_of(
    folder: Path, *documents: Document, stems: tuple[str, ...] = ("batch-r-mat-8",)
) -> Reader:
    for each, stem in zip(documents, stems, strict=True):
        document.save(each, {}, folder, stem)
    assert command.main(["--results", str(folder)]) == 0
    reader = Reader()
    reader.feed((folder / "index.html").read_text())
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_is_well_formed_and_nothing_is_injected(tmp_path: Path, sample: Document):
    reader = page_of(tmp_path, sample)
    names = {name for name, _ in reader.tags}
    assert "script" not in names
    assert "b" not in names
    assert not [a for _, a in reader.tags if any(key.startswith("on") for key in a)]
    ids = [a["id"] for _, a in reader.tags if "id" in a]
    assert len(ids) == len(set(ids))
    links = [a["href"] for name, a in reader.tags if name == "a"]
    assert links
    assert all(link is not None and link[0] == "#" and link[1:] in ids for link in links)
    described = [a["aria-labelledby"] for name, a in reader.tags if name == "svg"]
    assert len(described) == 6  # three charts, each for a narrow and a wide place
    assert all(key in ids for keys in described for key in str(keys).split())


def test_nothing_is_fetched_from_anywhere(tmp_path: Path, sample: Document):
    page_of(tmp_path, sample)
    text = (tmp_path / "index.html").read_text()
    assert not re.search(r"https?:|//[a-z]|url\(|@import|src=", text)


def test_every_word_of_the_document_is_in_the_page(tmp_path: Path, sample: Document):
    text = " ".join(" ".join(page_of(tmp_path, sample).text).split())
    said = [sample.title, sample.command, sample.settings, sample.warning, *sample.notes]
    for section in sample.sections:
        said.append(section.title)
        for part in section.parts:
            if isinstance(part, Table):
                said += [part.title, part.note, *part.head, *(c for row in part.rows for c in row)]
            else:
                said += [part.title, *part.categories, *(s.name for s in part.series)]
    for words_ in said:
        for number in re.findall(r"\d[\d.,]*", plain(words_)):
            assert number in text
        assert plain(words_).split("(")[0].strip() in text
    assert "1 of 2 aims reached" in text
    assert "not to be quoted" in text


def test_the_newest_of_every_stem_is_shown(
    tmp_path: Path, sample: Document, capsys: pytest.CaptureFixture[str]
):
    for date in ("2026-01-02 03:04 UTC", "2026-02-01 00:00 UTC", "2025-12-31 23:00 UTC"):
        dated = replace(sample, machine=MACHINE | {"date": date}, title=f"of {date}")
        document.save(dated, {}, tmp_path, "batch-r-mat-20")
    document.save(sample, {}, tmp_path, "batch-r-mat-9")
    document.save(replace(sample, suite="profile"), {}, tmp_path, "profile-r-mat-9")
    document.save(replace(sample, suite="evolving"), {}, tmp_path, "evolving-r-mat-9")
    (tmp_path / "old.json").write_text('{"no": "document"}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "odd.json").write_text('{"document": {"suite": "x"}}')
    said: list[str] = []
    found = newest(tmp_path, said.append)
    order = ["batch-r-mat-20", "batch-r-mat-9", "evolving-r-mat-9", "profile-r-mat-9"]
    assert [each.stem for each in found] == order
    assert found[0].document.title == "of 2026-02-01 00:00 UTC"
    assert [each.label for each in found[:2]] == ["R-MAT 20", "R-MAT 9"]
    assert [line.split(":")[0] for line in said] == ["broken.json", "odd.json"]
    assert command.main(["--results", str(tmp_path / "none")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_cannot_be_drawn_spoils_no_page(tmp_path: Path, sample: Document):
    empty = [Chart(kind, "nothing", "s", [], []) for kind in ("bars", "stacked", "lines")]
    none = [
        Chart(kind, f"no {kind}", "s", ["a"], [Series("ours", [None])], log)
        for kind in ("bars", "stacked", "lines")
        for log in (False, True)
    ]
    good = replace(sample, sections=[Section("Empty", parts=[*empty, *none])])
    ragged = [Section("Bad", parts=[Chart("bars", "t", "s", ["a", "b"], [Series("x", [1.0])])])]
    bad, old = replace(sample, sections=ragged), replace(sample, machine={"date": "2026-01-01"})
    document.save(bad, {}, tmp_path, "bad")
    (tmp_path / "old.json").write_text(json.dumps({"document": asdict(old)}))
    reader = page_of(tmp_path, good, stems=("good",))
    assert sum(name == "svg" for name, _ in reader.tags) == 2 * len(none)
    said: list[str] = []
    assert [each.stem for each in newest(tmp_path, said.append)] == ["good"]
    assert "not as many values as categories" in said[0]
    assert "KeyError" in said[1]


def test_markdown_is_escaped_first():
    assert inline("**a<b>** `x<y` *z*") == (
        "<strong>a&lt;b&gt;</strong> <code>x&lt;y</code> <em>z</em>"
    )
    assert inline("2 * 3 * 4, **open, `open, a_b") == "2 * 3 * 4, **open, `open, a_b"
    assert inline('"&') == "&quot;&amp;"
    assert plain("**1.75** (`a`)") == "1.75 (a)"
    assert block("one\ntwo\n\n- a\n  b\n- c") == "<p>one two</p>\n<ul><li>a b</li><li>c</li></ul>"


def test_cells_of_tables():
    cells = {
        "**8.21** ms (8.2 to 12.1)": "<strong>8.21</strong> ms |(8.2 to 12.1)",
        "0.39 ms (0.3 to 0.5) ✓": '0.39 ms |(0.3 to 0.5) <span class="kept">✓</span>',
        "**0.352** 1.45×": "<strong>0.352</strong> |1.45×",
        "**2.04** ×": "<strong>2.04</strong> ×",
        "did not finish (600 s)": "did not finish (600 s)",
    }
    for cell, shown in cells.items():
        first, _, rest = shown.partition("|")
        wanted = first + (f'<span class="rest">{rest}</span>' if rest else "")
        assert f">{wanted}</td>" in table(Table(["a", "b"], [["x", cell]]), "name")
    made = table(replace(TIMES, head=["", "ours", "GraphX"]), "name")
    assert '<strong>1.75</strong> <span class="rest">(3, 1.69 to 1.85)</span>' in made
    assert made.count('class="number"') == 3  # the column of ours; the other says more than numbers
    aims = table(AIMS, "name")
    assert '<span class="badge good">✓ reached</span>' in aims
    assert '<span class="badge bad">✗ not reached</span>' in aims
    assert "machine not quiet" in aims


def rects(shapes: list[str], kind: str) -> list[tuple[float, float]]:
    """Where each bar of a class begins, and how long it is."""
    found = []
    for shape in shapes:
        if shape.startswith("<rect") and f'class="{kind}"' in shape:
            x, width = (re.search(rf' {n}="([\d.]+)"', shape) for n in ("x", "width"))
            assert x
            assert width
            found.append((float(x[1]), float(width[1])))
    return found


def test_bars_are_in_proportion():
    series = [Series("time", [2.0, 4.0, 1.0])]
    chart = Chart("bars", "t", "s", ["a", "ours", "c"], series)
    shapes, _ = bars(chart, 640)
    ((_, own),), ((_, first), (_, third)) = rects(shapes, "own0"), rects(shapes, "peer")
    assert first / own == pytest.approx(0.5, abs=1e-3)
    assert third / own == pytest.approx(0.25, abs=1e-3)


def test_bars_on_a_logarithmic_axis_differ_by_what_they_differ_in_size():
    series = [Series("ours", [0.1, 1.0]), Series("x", [10.0, 100.0])]
    shapes, _ = bars(Chart("bars", "t", "s", ["a", "b"], series, log=True), 640)
    (a, b), (c, d) = rects(shapes, "own0"), rects(shapes, "peer")
    steps = [b[1] - a[1], c[1] - b[1], d[1] - c[1]]
    assert steps[0] > 20
    assert steps == pytest.approx([steps[0]] * 3, abs=0.05)
    zero = Chart("bars", "t", "s", ["a"], [Series("x", [0.0])], log=True)
    assert rects(bars(zero, 640)[0], "own0") == []


def test_stacked_parts_follow_each_other():
    shapes, _ = stacked(STACKED, 330)
    first, second = rects(shapes, "c0 part")[1:]  # the first is the legend's
    other = rects(shapes, "c1 part")[1]
    assert second[1] / first[1] == pytest.approx(3, abs=1e-2)
    assert other[0] == pytest.approx(first[0] + first[1], abs=0.02)
    assert other[1] / first[1] == pytest.approx(2, abs=1e-2)


def test_lines_rise_as_their_numbers_do():
    shapes, height = lines(LINES, 640)
    (path,) = [s for s in shapes if s.startswith("<polyline") and "own0" in s]
    found = re.search(r'points="([^"]+)"', path)
    assert found
    points = [tuple(map(float, pair.split(","))) for pair in found[1].split()]
    assert len(points) == 3
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.02)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.02)
    assert 0 < y2 < y0 < height
    assert apart([10, 11, 12, 300], 0, 300) == [10, 10 + APART, 10 + 2 * APART, 300]
    assert apart([99, 100], 0, 100) == [100 - APART, 100]


@pytest.mark.parametrize("width", [330, 640])
@pytest.mark.parametrize("draw", [bars, stacked, lines])
def test_nothing_is_drawn_beyond_the_edges(draw, width: int):
    names = ["ours, 2 partitions", "a system whose name is far too long for its place", "c"]
    values = [[1e-3, 2.5e6, 31.0], [4.0, None, 1.0], [0.0, 123456.0, 9e6]]
    series = [Series(name, each) for name, each in zip(names, values, strict=True)]
    kind = draw.__name__
    chart = Chart(
        kind, "t", "s", ["10", "100", "1,000,000"], series, kind != "stacked", [10, 100, 1e6]
    )
    shapes, height = draw(chart, width)
    for shape in shapes:
        text = re.match(r'<text x="([-\d.]+)" y="([-\d.]+)"(.*?)>(.*)</text>', shape)
        if text:
            x, y, more, said = float(text[1]), float(text[2]), text[3], text[4]
            wide = words.width_of(said, 12 if "tick" in more else 13)
            left = x - wide * (1 if '"end"' in more else 0.5 if '"middle"' in more else 0)
            assert left >= -1, shape
            assert left + wide <= width + 1, shape
            assert 0 <= y <= height, shape


@pytest.mark.parametrize(
    ("low", "high", "log", "ticks"),
    [
        (0, 681, False, [0, 200, 400, 600]),
        (0, 1, False, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.05, 41, True, [0.1, 1, 10]),
        (1, 5, True, [1, 2, 5]),
        (1e-6, 1e6, True, [1e-6, 1e-3, 1, 1e3, 1e6]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, log: bool, ticks: list[float]):
    assert Scale(low, high, 0, 100, log).ticks() == pytest.approx(ticks)


def test_scales_and_short_numbers():
    scale = Scale(1, 1000, 10, 40, True)
    assert [scale(v) for v in (1, 10, 100, 1000)] == pytest.approx([10, 20, 30, 40])
    assert span([0.104, 41], True, zero=True) == (0.05, 41)
    assert span([3, 7], False, zero=True) == (0, 7)
    assert span([-2, 7], False, zero=True) == (-2, 7)
    assert span([], True, zero=True) == (1, 10)
    numbers = [0, 0.0411, 0.5, 24.84, 999.6, 1234.5, 16.8e6, -3, 5e-5]
    said = ["0", "0.0411", "0.5", "24.8", "1,000", "1,230", "16.8 M", "-3", "5e-05"]
    assert [short(n) for n in numbers] == said


def test_text_is_broken_to_fit():
    for text in ("ours, with a rather long name", "averyveryverylongsingleword", "x"):
        made = words.lines_of(text, 60)
        assert "".join(made).replace(" ", "") == text.replace(" ", "")
        assert all(words.width_of(line) <= 60 for line in made)


def test_ours_stands_out():
    assert of_series(["ours", "ours, 2 partitions", "SciPy", "igraph"]) == [
        "own0", "own1", "c3", "c4",
    ]  # fmt: skip
    # The same system has the same colour in every chart, and no two share one.
    assert of_series(["ours", "igraph", "what is new", "SciPy", "SciPy from scratch"]) == [
        "own0", "c4", "c1", "c3", "c2",
    ]  # fmt: skip
    assert of_series(["ours", "ours, 2 partitions"]) == ["own0", "own1"]
    assert len(set(of_series([f"ours, {k}" for k in range(5)]))) == 5
    many = of_series([f"system {k}" for k in range(6)] + ["GraphX"])
    assert len(set(many)) == 7
    alone = Chart("bars", "t", "s", ["SciPy"], [Series("x", [1.0])])
    assert of_bars(alone) == [["peer"]]
    assert of_series(["B=1", "auto"]) == ["c0", "c1"]
    assert of_bars(BARS) == [["own0", "peer"]] * 2


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """As in the Web Content Accessibility Guidelines: 1 to 21."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(weights @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


SEEN_BY = {  # Machado, Oliveira and Fernandes (2009), linear RGB
    "all": np.eye(3),
    "protanopes": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopes": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopes": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def lab(colour: str, eyes: str) -> np.ndarray:
    """CIE L*a*b* of a colour as some eyes see it."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    seen = np.clip(np.array(SEEN_BY[eyes]) @ linear(colour), 0, 1)
    x, y, z = np.cbrt(np.array(to_xyz) @ seen / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def palette(mode: int) -> tuple[dict[str, str], str]:
    """The colours by light or dark, and the style."""
    style = (Path(command.__file__).parent / "style.css").read_text()
    colours: dict[str, str] = {}
    for each in re.findall(r":root \{(.*?)\}", style, re.DOTALL)[: mode + 1]:
        colours |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", each))
    return colours, style


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read(mode: int):
    colours, style = palette(mode)
    for text in ("ink", "soft", "link", "own0"):
        for ground in ("paper", "raised"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for name in ("good", "bad", "warn"):
        assert contrast(colours[name], colours[f"{name}-back"]) >= 4.5, name
    for name in ("own0", "own1", "own2", "peer", *(f"c{k}" for k in range(PALETTE))):
        assert contrast(colours[name], colours["paper"]) >= 3, name
    said = 0
    for ground in ("on-light", "on-dark"):
        found = re.search(rf"((?:svg text\.on-c\d,?\s*)+)\{{\s*fill: var\(--{ground}\)", style)
        assert found
        for name in re.findall(r"on-(c\d)", found[1]):
            said += 1
            assert contrast(colours[ground], colours[name]) >= 4.5, name
    assert said == PALETTE


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("eyes", SEEN_BY)
def test_colours_can_be_told_apart(mode: int, eyes: str):
    colours, _ = palette(mode)
    seen = [lab(colours[f"c{k}"], eyes) for k in range(PALETTE)]
    least = min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))
    assert least >= 20  # a difference of 2 can just be seen


def test_verdicts_and_wrong_answers(sample: Document):
    found = verdicts(sample)
    assert [(v.title, v.reached) for v in found] == [("load", True), ("run", False), ("hop", None)]
    assert found[2].said == "machine not quiet"
    assert len(wrong_answers(sample)) == 1
    assert "3 differ" in wrong_answers(sample)[0]
