"""The benchmark of scaling without Spark: lines through points, unit costs, tables."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from benchmarks import document
from benchmarks.runner import CaseResult
from benchmarks.suites.examples import SUITE as EXAMPLES
from benchmarks.suites.scaling import SUITE, Results, Sizes, least_squares, power, unit_costs

MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}

COSTS = {
    "a hop, whatever it does": 0.05,
    "a task in an executor": 0.02,
    "a block from one partition to another": 1e-4,
    "the driver, per task": 1e-3,
    "the driver, per pair of partitions": 1e-7,
    "a message: coded, sent and taken in": 2e-8,
    "bytes of a message": 8.0,
    "a byte by the shuffle": 1e-9,
    "a byte by the driver": 2e-8,
    "a commit to lmdb": 0.01,
    "a byte of a commit to lmdb": 4e-9,
    "an edge in an iteration of PageRank": 3e-9,
    "an edge loaded from Parquet": 4e-7,
    "bytes of memory for a graph's edge": 8.0,
    "bytes of memory for a graph's vertex": 40.0,
    "bytes of memory for a graph's ghost": 20.0,
}
(
    HOP, TASK, PAIR, DRIVER_TASK, DRIVER_PAIR, MESSAGE, MESSAGE_BYTES, BYTE, DRIVER_BYTE, COMMIT,
    COMMIT_BYTE, EDGE, LOAD, *MEMORY,
) = COSTS.values()  # fmt: skip


def test_a_line_has_the_standard_errors_of_the_textbook():
    x, y = [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 5.0]
    (start, start_error), (slope, slope_error) = least_squares([[1.0] * 4, x], y)
    assert (start, slope) == pytest.approx((0.0, 1.1))
    rest = [b - 1.1 * a for a, b in zip(x, y, strict=True)]
    deviation = math.sqrt(sum(r * r for r in rest) / 2)
    assert slope_error == pytest.approx(deviation / math.sqrt(5.0))
    assert start_error == pytest.approx(deviation * math.sqrt(1 / 4 + 2.5**2 / 5.0))


def test_an_exponent_is_found_and_what_cannot_be_told_is_refused():
    x = np.array([1e3, 1e5, 1e7])
    assert power(x.tolist(), (7 * x**1.25).tolist()) == pytest.approx((1.25, 0), abs=1e-9)
    assert math.isnan(power([1, 10], [5, 50])[1])
    with pytest.raises(ValueError, match="3 points do not determine"):
        least_squares([[1.0] * 3, [2.0, 2.0, 2.0]], [1.0, 2.0, 3.0])
    sizes = [0.0, 1e9, 2e9]  # beside ones, in two columns
    values = [value for value, _ in least_squares([[1] * 3, sizes], [1, 3, 5])]
    assert values == pytest.approx((1, 2e-9))


def _found(case: str, **figures: dict[Any, float]) -> CaseResult:
    named = {
        f"{name.replace('__', ' ')} @{','.join(map(str, at)) if isinstance(at, tuple) else at}": [y]
        for name, points in figures.items()
        for at, y in points.items()
    }
    return CaseResult(case, named)


def _results(others: float = 0.0) -> Results:
    """Figures that `COSTS` would leave on two cores, without noise."""
    r = Results(MACHINE, ["bench", "scaling"], Sizes())
    hops = (1, 2, 4, 8, 16)
    sizes = (0, 10**6, 3 * 10**6, 10**7)
    crossing = (0, 10**5, 4 * 10**5)
    per_message = (MESSAGE + MESSAGE_BYTES * BYTE) / 2
    graphs = [(1e6, 1e5, 1e4), (1e6, 2e5, 9e4), (5e5, 1e5, 5e4), (2e6, 3e5, 0.0)]
    r.cases["costs"] = _found(
        "costs",
        hop__shuffle={p: HOP + TASK * p / 2 + PAIR * p * p / 2 for p in hops},
        bytes__shuffle={b: 0.1 + b * BYTE / 2 for b in sizes},
        bytes__driver={b: 0.1 + b * DRIVER_BYTE for b in sizes},
        messages={x: 0.2 + x * per_message for x in crossing},
        message__bytes={x: x * MESSAGE_BYTES for x in crossing},
        commit__lmdb={b: COMMIT + b * COMMIT_BYTE for b in sizes},
        memory={
            (int(e), int(v), int(g)): MEMORY[0] * e + MEMORY[1] * v + MEMORY[2] * g
            for e, v, g in graphs
        },
    )
    r.cases["costs-driver"] = _found(
        "costs-driver", driver__hop={p: 0.01 + DRIVER_TASK * p + DRIVER_PAIR * p * p for p in hops}
    )
    edges = (10**6, 4 * 10**6, 16 * 10**6)
    r.cases["local-1"] = _found(
        "local-1",
        edges__pagerank__kernel={m: 10 * EDGE * m for m in edges},
        edges__pagerank__load={m: 0.3 + LOAD * m for m in edges},
        edges__pagerank__seconds={m: 1e-9 * m**1.5 for m in edges},
    )
    r.cases["local-2"] = _found(
        "local-2",
        partitions__pagerank__seconds={1: 0.4, 2: 11.5},
        partitions__pagerank__hops={1: 1, 2: 11},
    )
    r.cases["changes"] = _found("changes", query__components={1: 0.25, 10: 0.125})
    r.cases["changes"].others = others
    return r


def test_costs_are_read_out_of_the_figures_that_they_leave():
    costs = {cost.title: cost.value for cost in unit_costs(_results())}
    assert costs == pytest.approx(COSTS, rel=1e-3)


def test_without_runs_on_one_core_those_on_two_tell_what_an_edge_costs():
    r = _results()
    half = r.cases.pop("local-1")
    half.figures = {name: [y / 2 for y in found] for name, found in half.figures.items()}
    r.cases["local-2"] = half
    assert {cost.title: cost.value for cost in unit_costs(r)} == pytest.approx(COSTS, rel=1e-3)


def test_noise_that_is_a_share_of_the_time_hides_no_small_cost():
    random = np.random.default_rng(3)
    counts = [1, 2, 4, 8, 16, 32, 64]
    columns = [[1.0] * 7, counts, [p * p for p in counts]]
    true = [0.05 + 0.01 * p + 1e-3 * p * p for p in counts]
    for _ in range(20):
        y = [t * random.normal(1.0, 0.03) for t in true]
        (fixed, _), _, (pair, _) = least_squares(columns, y, relative=True)
        assert fixed == pytest.approx(0.05, rel=0.3)
        assert pair == pytest.approx(1e-3, rel=0.3)
    zero = least_squares([[1.0, 1.0], [0.0, 1.0]], [0.0, 2.0], relative=True)
    assert [value for value, _ in zero] == [0.0, 2.0]


def test_a_cost_below_zero_is_zero_and_uncertain():
    r = _results()
    noisy = {0: 0.3, 10**6: 0.1, 3 * 10**6: 0.25, 10**7: 0.2}
    r.cases["costs"].figures |= {f"bytes driver @{b}": [y] for b, y in noisy.items()}
    cost = next(cost for cost in unit_costs(r) if cost.title == "a byte by the driver")
    assert (cost.value, cost.uncertain) == (0.0, True)
    assert "a byte by the driver (*uncertain*)" in document.markdown(SUITE.document(r))


def test_the_document_says_what_was_found():
    text = document.markdown(SUITE.document(_results()))
    assert (
        "| PageRank, 10 iterations, 1 core | **1.00** | **8.00** | **64.0** | 1.50 ± 0.00 |" in text
    )
    assert (
        "| PageRank, 10 iterations, 2 cores | **0.400** | **11.5** | – | – | 1 / 11 / – / – |"
        in text
    )
    assert "| query: components | **0.250** | **0.125** |" in text
    assert "| an edge in an iteration of PageRank | 3 ± " in text
    assert "Not to be quoted" not in text
    assert "Not to be quoted" in document.markdown(SUITE.document(_results(others=0.2)))


def test_every_chart_has_numbers_and_survives_json():
    made = SUITE.document(_results())
    charts = [p for s in made.sections for p in s.parts if isinstance(p, document.Chart)]
    assert {chart.kind for chart in charts} == {"lines"}
    for chart in charts:
        assert chart.series
        assert all(len(series.values) == len(chart.categories) for series in chart.series)
        assert chart.kind != "lines" or len(chart.x) == len(chart.categories)
    assert document.opened(dataclasses.asdict(made)) == made


def test_figures_beside_a_wrong_answer_are_not_shown():
    r = _results()
    r.cases["changes"].problem = "wrong answer: 3 values differ"
    text = document.markdown(SUITE.document(r))
    assert "query: components" not in text
    assert "**Not measured:** changes: wrong answer: 3 values differ" in text
    r.cases["costs-driver"].problem = "did not finish in 9 s"
    r.cases["costs-driver"].figures.clear()
    text = document.markdown(SUITE.document(r))
    assert "Not known: costs-driver: driver hop: 0 points do not determine 3 values." in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scales", "20..14"], "give scales from 4 to 26"),
        (["--scales", "3..9"], "give scales from 4 to 26"),
        (["--partitions", "0"], "give numbers of at least 1"),
        (["--parts", "nosuch"], "unknown 'nosuch'; choose from"),
    ],
)
def test_bad_arguments_end_with_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        SUITE.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_more_changes_than_edges_are_refused(capsys: pytest.CaptureFixture[str]):
    assert SUITE.main(["--scale", "8", "--changes", "1,100000"]) == 2
    assert "more than half of the edges of R-MAT 8" in capsys.readouterr().err


def test_quick_arguments_are_good_ones():
    options = SUITE.parser().parse_args(SUITE.quick.split())
    assert {"local-2", "costs", "costs-driver"} <= set(options.parts)
    assert max(options.changes) <= 8 << options.scale
    assert EXAMPLES.parser().parse_args(EXAMPLES.quick.split()).scale == 12
