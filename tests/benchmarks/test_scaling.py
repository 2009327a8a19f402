"""The benchmark of scaling without Spark: lines through points, the model, its costs, tables."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from benchmarks import document
from benchmarks.evolving.parent import Found
from benchmarks.scaling import table
from benchmarks.scaling.checked import compared
from benchmarks.scaling.fit import least_squares, line, power, relative
from benchmarks.scaling.measured import costs_of, measured
from benchmarks.scaling.projection import Assumed, Costs, fewest, messages, project
from benchmarks.scaling.results import Results
from benchmarks.scaling.sizes import Sizes
from benchmarks.suites import examples, scaling

MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}

COSTS = Costs(
    hop=0.05, task=0.02, pair=1e-4, driver_task=1e-3, driver_pair=1e-7, message=2e-8,
    message_bytes=8.0, byte=1e-9, driver_byte=2e-8, commit=0.01, commit_byte=4e-9, edge=3e-9,
    load=4e-7, edge_memory=8.0, vertex_memory=40.0, ghost_memory=20.0,
)  # fmt: skip


def test_a_line_has_the_standard_errors_of_the_textbook():
    x, y = [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 5.0]
    fit = line(x, y)
    assert fit.value == pytest.approx((0.0, 1.1))
    rest = [b - 1.1 * a for a, b in zip(x, y, strict=True)]
    deviation = math.sqrt(sum(r * r for r in rest) / 2)
    assert fit.error[1] == pytest.approx(deviation / math.sqrt(5.0))
    assert fit.error[0] == pytest.approx(deviation * math.sqrt(1 / 4 + 2.5**2 / 5.0))


def test_an_exponent_is_found_and_what_cannot_be_told_is_refused():
    x = np.array([1e3, 1e5, 1e7])
    fit = power(x.tolist(), (7 * x**1.25).tolist())
    assert fit.value[1] == pytest.approx(1.25)
    assert fit.error[1] == pytest.approx(0, abs=1e-9)
    assert math.isnan(power([1, 10], [5, 50]).error[1])
    with pytest.raises(ValueError, match="3 points do not determine"):
        line([2.0, 2.0, 2.0], [1.0, 2.0, 3.0])
    sizes = [0.0, 1e9, 2e9]  # beside ones, in two columns
    assert least_squares([[1] * 3, sizes], [1, 3, 5]).value == pytest.approx((1, 2e-9))


def test_messages_are_those_of_a_random_graph_by_counting():
    random = np.random.default_rng(5)
    n, m, partitions = 2000, 12_000, 5
    source, target = random.integers(0, n, m), random.integers(0, n, m)
    here, there = source % partitions, target % partitions
    crosses = here != there
    crossing = np.unique(here[crosses] * n + target[crosses]).size
    assert messages(m, n, partitions) * partitions == pytest.approx(crossing, rel=0.02)


def test_the_model_adds_up_by_hand():
    assumed = Assumed(edges=1e6, edges_per_vertex=10.0, cores=4.0, network=1e8)
    found = project(COSTS, 10, assumed)
    sent = 1e5 * 0.9 * (1 - math.exp(-1.0))
    assert found.messages == pytest.approx(sent)
    assert found.bundle == pytest.approx(sent * 8 / 9)
    assert found.kernel == pytest.approx(1e5 * 3e-9 / 4)
    core = sent * 2e-8 + sent * 8 * 1e-9 + 10 * 1e-4
    assert found.shuffle == pytest.approx(core / 4 + sent * 8 / 1e8)
    assert found.driver == pytest.approx(0.05 + 0.02 + 1e-2 + 1e-5)
    assert found.commit == pytest.approx(0.01 + 1e5 * 16 * 4e-9)
    assert found.memory == pytest.approx(1e5 * 8 + 1e4 * 40 + sent * 20)
    assert found.seconds == pytest.approx(
        found.kernel + found.shuffle + found.driver + found.commit
    )
    assert found.load == pytest.approx(1e5 * 4e-7 / 4 + 1e5 * 24 * 0.9 / 1e8)
    assert (found.limit, found.refused) == ("driver", ())


def test_what_cannot_run_is_refused_with_the_reason_and_more_executors_help():
    few = project(COSTS, 10)
    assert set(few.refused) == {"memory", "block over 2 GiB", "over 2^31 slots"}
    assert few.limit.startswith("memory")
    least = fewest(COSTS)
    assert least is not None
    assert project(COSTS, least - 1).refused
    assert not project(COSTS, least).refused
    assert fewest(COSTS, Assumed(memory=1.0)) is None
    alone = project(COSTS, 1, Assumed(edges=1e6))
    assert (alone.messages, alone.bundle) == (0, 0)
    assert project(COSTS, least, Assumed(stores=1e15)).commit == pytest.approx(COSTS.commit)


def _found(case: str, **figures: dict[Any, float]) -> Found:
    named = {
        f"{name.replace('__', ' ')} @{','.join(map(str, at)) if isinstance(at, tuple) else at}": [y]
        for name, points in figures.items()
        for at, y in points.items()
    }
    return Found(case, named)


def _results(others: float = 0.0) -> Results:
    """Figures that `COSTS` would leave on two cores, without noise."""
    r = Results(MACHINE, ["bench", "scaling"], Sizes())
    c, hops = COSTS, (1, 2, 4, 8, 16)
    sizes = (0, 10**6, 3 * 10**6, 10**7)
    crossing = (0, 10**5, 4 * 10**5)
    per_message = (c.message + c.message_bytes * c.byte) / 2
    graphs = [(1e6, 1e5, 1e4), (1e6, 2e5, 9e4), (5e5, 1e5, 5e4), (2e6, 3e5, 0.0)]
    r.cases["costs"] = _found(
        "costs",
        hop__shuffle={p: c.hop + c.task * p / 2 + c.pair * p * p / 2 for p in hops},
        bytes__shuffle={b: 0.1 + b * c.byte / 2 for b in sizes},
        bytes__driver={b: 0.1 + b * c.driver_byte for b in sizes},
        messages={x: 0.2 + x * per_message for x in crossing},
        message__bytes={x: x * c.message_bytes for x in crossing},
        commit__lmdb=dict.fromkeys(sizes, 0.5),
        commit__redis={b: c.commit + b * c.commit_byte for b in sizes},
        memory={(int(e), int(v), int(g)): 8.0 * e + 40.0 * v + 20.0 * g for e, v, g in graphs},
    )
    r.cases["costs-driver"] = _found(
        "costs-driver", driver__hop={p: 0.01 + 1e-3 * p + 1e-7 * p * p for p in hops}
    )
    edges = (10**6, 4 * 10**6, 16 * 10**6)
    r.cases["local-1"] = _found(
        "local-1",
        edges__pagerank__kernel={m: 10 * c.edge * m for m in edges},
        edges__pagerank__load={m: 0.3 + c.load * m for m in edges},
        edges__pagerank__seconds={m: 1e-9 * m**1.5 for m in edges},
    )
    r.cases["local-2"] = _found(
        "local-2",
        partitions__pagerank__loop={1: 0.3, 2: 11.0},
        partitions__pagerank__seconds={1: 0.4, 2: 11.5},
        partitions__pagerank__vertices={1: 1e5, 2: 1e5},
        partitions__pagerank__ghosts={1: 0.0, 2: 3e6},
        partitions__pagerank__bytes={1: 0.0, 2: 3e8},
        partitions__pagerank__hops={1: 1, 2: 11},
    )
    r.cases["changes"] = _found("changes", query__components={1: 0.25, 10: 0.125})
    r.cases["changes"].others = others
    return r


def test_costs_are_read_out_of_the_figures_that_they_leave():
    found = costs_of(measured(_results()))
    for field in dataclasses.fields(Costs):
        wanted = getattr(COSTS, field.name)
        assert getattr(found, field.name) == pytest.approx(wanted, rel=1e-3), field.name


def test_without_runs_on_one_core_those_on_two_tell_what_an_edge_costs():
    r = _results()
    half = r.cases.pop("local-1")
    half.figures = {name: [y / 2 for y in found] for name, found in half.figures.items()}
    r.cases["local-2"] = half
    found = costs_of(measured(r))
    assert (found.edge, found.load) == pytest.approx((COSTS.edge, COSTS.load))


def test_noise_that_is_a_share_of_the_time_hides_no_small_cost():
    random = np.random.default_rng(3)
    counts = [1, 2, 4, 8, 16, 32, 64]
    columns = [[1.0] * 7, counts, [p * p for p in counts]]
    true = [0.05 + 0.01 * p + 1e-3 * p * p for p in counts]
    for _ in range(20):
        y = [t * random.normal(1.0, 0.03) for t in true]
        fit = relative(columns, y)
        assert fit.value[0] == pytest.approx(0.05, rel=0.3)
        assert fit.value[2] == pytest.approx(1e-3, rel=0.3)
    assert relative([[1.0, 1.0], [0.0, 1.0]], [0.0, 2.0]).value == (0.0, 2.0)


def test_a_cost_below_zero_is_taken_as_zero_and_said_to_be_loose():
    r = _results()
    noisy = {0: 0.3, 10**6: 0.1, 3 * 10**6: 0.25, 10**7: 0.2}
    r.cases["costs"].figures |= {f"bytes driver @{b}": [y] for b, y in noisy.items()}
    cost = next(cost for cost in measured(r) if cost.name == "driver_byte")
    assert (cost.value, cost.loose) == (0.0, True)
    assert "a byte by the driver (*loose*)" in document.markdown(table.document(r))


def test_the_model_is_held_against_runs_whose_messages_were_shuffled():
    (row,) = compared(_results(), COSTS)
    work = (16 << 18) * COSTS.edge + 3e6 * (COSTS.message + 8 * COSTS.byte)
    work += COSTS.task * 2 + COSTS.pair * 4
    assert row.model == pytest.approx(COSTS.hop + work / 2)
    assert (row.partitions, row.crossing, row.measured) == (2, 3e6, 1.0)


def test_the_document_says_what_was_found():
    text = document.markdown(table.document(_results()))
    assert (
        "| PageRank, 10 iterations, 1 core | **1.00** | **8.00** | **64.0** | 1.50 ± 0.00 |" in text
    )
    assert (
        "| PageRank, 10 iterations, 2 cores | **0.400** | **11.5** | – | – | 1 / 11 / – / – |"
        in text
    )
    assert "| query: components | **0.250** | **0.125** |" in text
    assert "| an edge in an iteration of PageRank | 3 ± " in text
    assert "| 10 | " in text
    assert "memory, block over 2 GiB, over 2^31 slots |" in text
    assert "are the fewest that can run it" in text
    assert "Not to be quoted" not in text
    assert "Not to be quoted" in document.markdown(table.document(_results(others=0.2)))


def test_a_projection_from_small_sizes_or_loose_costs_says_so():
    r = _results()
    assert "where fixed costs pass for costs of edges" not in document.markdown(table.document(r))
    r.sizes = dataclasses.replace(r.sizes, tasks=8)
    assert "where fixed costs pass for costs of edges" in document.markdown(table.document(r))
    noisy = {0: 0.3, 10**6: 0.1, 3 * 10**6: 0.25, 10**7: 0.2}
    r.cases["costs"].figures |= {f"bytes driver @{b}": [y] for b, y in noisy.items()}
    assert "they are loose: a byte by the driver." in document.markdown(table.document(r))


def test_every_chart_has_numbers_and_survives_json():
    made = table.document(_results())
    charts = [p for s in made.sections for p in s.parts if isinstance(p, document.Chart)]
    assert {chart.kind for chart in charts} == {"lines", "stacked"}
    for chart in charts:
        assert chart.series
        assert all(len(series.values) == len(chart.categories) for series in chart.series)
        assert chart.kind != "lines" or len(chart.x) == len(chart.categories)
    assert document.opened(dataclasses.asdict(made)) == made


def test_figures_beside_a_wrong_answer_are_not_shown():
    r = _results()
    r.cases["changes"].problem = "wrong answer: 3 values differ"
    text = document.markdown(table.document(r))
    assert "query: components" not in text
    assert "**Not measured:** changes: wrong answer: 3 values differ" in text
    r.cases["costs-driver"].problem = "did not finish in 9 s"
    r.cases["costs-driver"].figures.clear()
    text = document.markdown(table.document(r))
    assert "None: costs-driver: driver hop: 0 points do not determine 3 values." in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scales", "20..14"], "give scales from 4 to 26"),
        (["--scales", "3..9"], "give scales from 4 to 26"),
        (["--partitions", "0"], "give numbers of at least 1"),
        (["--parts", "nosuch"], "no part 'nosuch'"),
    ],
)
def test_bad_arguments_end_with_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        scaling.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_more_changes_than_edges_are_refused(capsys: pytest.CaptureFixture[str]):
    assert scaling.main(["--scale", "8", "--changes", "1,100000"]) == 2
    assert "more than half of the edges of R-MAT 8" in capsys.readouterr().err


def test_quick_arguments_are_good_ones():
    options = scaling._parser().parse_args(scaling.QUICK)
    assert {"local-2", "costs", "costs-driver"} <= set(options.parts)  # the projection needs them
    assert max(options.changes) <= 8 << options.scale
    assert examples._parser().parse_args(examples.QUICK).scale == 12
