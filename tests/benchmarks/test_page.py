"""The page of the results: all of them are in it, escaped, and it fetches nothing. No Spark."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import document, page
from benchmarks.charts import colors, svg
from benchmarks.document import Chart, Document, Section, Series, Table
from benchmarks.targets import verdicts, wrong_answers

EVIL = "<script>alert('x')</script>"
MACHINE = {
    "date": "2026-01-02 03:04 UTC", "processor": "P <1>", "cores": 2, "memory": 8 << 30,
    "load_average": 0.5, "system": "Linux", "python": "3.11", "revision": "abc",
    "versions": {"numpy": "2.4"},
}  # fmt: skip
CHARTS = [
    Chart("bars", "Seconds", "s", ["load", "run"],
          [Series("ours", [1.0, 0.5]), Series("GraphX", [10.0, None])], log=True),
    Chart("lines", "Growth", "s", ["10", "100", "1000"], [Series("SciPy", [0.2, 0.0, None])],
          log=True, x=[10, 100, 1000], x_title="edges"),
    Chart("stacked", "Parts of $1", "s", ["one"],
          [Series("kernel", [1]), Series("commit", [None])]),
]  # fmt: skip
AIMS = Table(
    ["what ours must reach", "measured", "aim", ""],
    [["load", "1.75 s", "≤ 8", "reached"], ["run", "26.8 ×", "≥ 40", "**not reached**"],
     ["hop", "21 ms", "≤ 60", "machine not quiet"]],
)  # fmt: skip
TIMES = Table(["", EVIL], [["run | load", "wrong answer: 3 differ"]], "Times")


@pytest.fixture
def sample() -> Document:
    sections = [Section("All " + EVIL, "- " + EVIL, [*CHARTS, TIMES]), Section("Aims", "", [AIMS])]
    return Document(
        "batch",
        "T " + EVIL,
        "compares",
        "./dev '" + EVIL + "'",
        MACHINE,
        "",
        EVIL,
        sections,
        [EVIL],
    )


def test_a_page_of_the_newest_results(tmp_path: Path, sample: Document, capsys):
    for date in ("2026-01-02", "2026-02-01", "2025-12-31"):
        dated = replace(sample, machine=MACHINE | {"date": date}, title=f"of {date}")
        document.save(dated, {}, tmp_path, "batch-r-mat-20")
    document.save(sample, {}, tmp_path, "batch-r-mat-9")
    document.save(replace(sample, suite="profile"), {}, tmp_path, "profile-r-mat-9")
    (tmp_path / "broken.json").write_text("{")
    assert page.main(["--results", str(tmp_path)]) == 0
    assert "left out broken.json" in capsys.readouterr().err
    text = (tmp_path / "index.html").read_text()
    stems = re.findall(r'<section id="([^"]+)">', text)
    assert stems == ["batch-r-mat-20", "batch-r-mat-9", "profile-r-mat-9"]
    assert re.findall(r'href="#([^"]+)"', text) == stems
    assert "of 2026-02-01" in text
    assert "of 2025-12-31" not in text
    assert text.count("1 of 2 aims reached; ⚠ not to be quoted") == 3
    assert text.count("<img ") == 3 * len(CHARTS)
    assert "<td>run / load</td>" in text
    assert "<script" not in text
    assert not re.search(r"https?:|@import|src=\"(?!data:)", text)


def test_without_results_there_is_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert page.main(["--results", str(tmp_path)]) == 2
    assert "run a suite first" in capsys.readouterr().err


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.kind)
def test_a_chart_names_its_series_and_is_the_same_each_time(chart: Chart):
    text = svg(chart)
    assert chart.title in text
    assert len(chart.series) == 1 or all(series.name in text for series in chart.series)
    assert svg(chart) == text


def test_colors_differ_and_a_system_keeps_its_own():
    names = ["ours", "igraph", "new", "SciPy", "SciPy from scratch", "ours, batch"]
    assert len(set(colors(names).values())) == len(names)
    assert colors(["GraphX", "SciPy"])["SciPy"] == colors(names)["SciPy"]


def test_verdicts_and_wrong_answers(sample: Document):
    found = verdicts(sample)
    assert [(v.title, v.met) for v in found] == [("load", True), ("run", False), ("hop", None)]
    assert found[2].text == "machine not quiet"
    assert wrong_answers(sample) == [f"run | load, {EVIL}: wrong answer: 3 differ"]


def test_results_are_small(tmp_path: Path, sample: Document):
    figures = {"seconds": [k / 7 for k in range(100)], "sizes": list(range(100)), "few": [1 / 3]}
    _, path = document.save(sample, figures, tmp_path, "batch")
    saved = document.json.loads(path.read_text())
    assert saved["seconds"] == {"number": 100, "least": 0, "median": 7.07143, "greatest": 14.1429}
    assert saved["sizes"] == list(range(100))
    assert saved["few"] == [0.333333]
    assert document.opened(saved["document"]) == sample
    assert max(path.read_text().splitlines(), key=len).count("{") == 0
