"""The suite profile without Spark: phases that add up, Spark's event log read, the document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.document import Chart, Table
from benchmarks.runner import CaseResult
from benchmarks.suites import profile
from benchmarks.suites.profile import REST, SHOWN, SUITE, Sample, placed
from vertexsdk.engine.phases import PhaseTimer
from vertexsdk.transport.task_times import Clock, HopTimes, Stamp

START = 1000.0


def _log(folder: Path) -> None:
    """A job of one stage with two tasks, of which the second ends later."""

    def task(number: int, finish: int, run: int) -> dict[str, Any]:
        return {
            "Event": "SparkListenerTaskEnd", "Stage ID": 7,
            "Task Info": {"Launch Time": 1000010 + number, "Finish Time": finish},
            "Task Metrics": {
                "Executor Deserialize Time": 2, "Executor Run Time": run,
                "Shuffle Read Metrics": {"Fetch Wait Time": 3},
                "Shuffle Write Metrics": {"Shuffle Write Time": 4_000_000},
            },
        }  # fmt: skip

    events = [
        {"Event": "SparkListenerJobStart", "Job ID": 3, "Submission Time": 1000005,
         "Stage IDs": [7]},
        {"Event": "SparkListenerStageSubmitted",
         "Stage Info": {"Stage ID": 7, "Submission Time": 1000006}},
        task(0, 1000040, 28),
        task(1, 1000060, 45),
        task(0, 1000050, 38),
        {"Event": "SparkListenerJobEnd", "Job ID": 3, "Completion Time": 1000070},
    ]  # fmt: skip
    inside = folder / "eventlog_v2_local-1"
    inside.mkdir()
    (inside / "appstatus_local-1").write_text("")
    lines = [json.dumps(event) for event in events]
    (inside / "events_1_local-1").write_text("\n".join([*lines, '{"Event": "cut o']))


def _hop() -> PhaseTimer:
    """A hop of 100 ms: task 1 ends last, 20 ms after it was submitted its worker is born."""
    tasks = [
        Stamp(0.0, START + 0.012, 0.0, START + 0.013, START + 0.030, 0.0),
        Stamp(START + 0.020, START + 0.030, 0.005, START + 0.038, START + 0.090, 0.0),
    ]
    inside = [
        {"kernel": 0.017},
        {"load": 0.004, "receive": 0.006, "kernel": 0.036, "save": 0.002, "commit": 0.008},
    ]
    spent = PhaseTimer()
    spent.hop(HopTimes(START, START + 0.010, START + 0.100, tasks), inside)
    return spent


def test_a_hop_is_told_along_the_task_that_ended_last_and_adds_up() -> None:
    expected = {
        "prepare": 10, "schedule": 10, "start": 15, "decode": 9, "open": 4, "kernel": 30,
        "encode": 2, "save": 2, "commit": 8, "results": 10,
    }  # fmt: skip
    found = {name: 1e3 * x for name, x in _hop().seconds.items() if x}
    assert found == pytest.approx(expected)
    assert sum(found.values()) == pytest.approx(100)


def test_what_is_beside_hops_and_commits_is_the_drivers_and_the_rest_is_told() -> None:
    spent = _hop()
    with spent.timed("commit"):
        pass
    spent.driver(0.125)
    whole = spent.complete(0.130)
    assert whole["driver"] == pytest.approx(0.025, abs=1e-4)
    assert whole["rest"] == pytest.approx(0.005, abs=2e-4)
    assert sum(whole.values()) == pytest.approx(0.130)


def test_a_stamp_comes_back_as_it_was_with_the_report_behind_it() -> None:
    clock = Clock()
    with clock.importing():
        pass
    stamp = clock.stamp()
    assert Stamp.split(stamp.prepend_to(b"report")) == (stamp, b"report")
    assert stamp.began <= stamp.decoded <= stamp.ended
    assert stamp.imported == 0.0


def test_the_event_log_tells_the_slowest_task_of_each_stage(tmp_path: Path) -> None:
    _log(tmp_path)
    (job,) = profile.read(tmp_path)
    assert (job.began, job.ended) == (1000.005, 1000.070)
    stage = job.stages[7]
    assert [stage.queued, stage.decoded, stage.ran] == pytest.approx([0.005, 0.002, 0.045])
    assert [stage.read, stage.written] == pytest.approx([0.003, 0.004])
    assert profile.between([job], 1000.004, 1000.071) == [job]
    assert profile.between([job], 1000.010, 1000.071) == []
    assert profile.between([job], 1000.004, 1000.060) == []


def test_the_shuffle_is_taken_out_of_what_it_was_counted_in(tmp_path: Path) -> None:
    _log(tmp_path)
    phases = {"decode": 0.010, "results": 0.001, "kernel": 0.020}
    sample = Sample("bfs", 2, True, START, START + 0.080, phases)
    shown = placed(sample, profile.read(tmp_path))["shown"]
    assert shown["decode"] == pytest.approx(0.007)
    assert shown["results"] == 0
    assert shown["shuffle"] == pytest.approx(0.004)
    assert shown[REST] == pytest.approx(0.049)
    assert list(shown) == list(SHOWN)
    assert sum(shown.values()) == pytest.approx(0.080)


def test_a_load_is_told_by_the_event_log_alone(tmp_path: Path) -> None:
    _log(tmp_path)
    sample = Sample("load", 2, False, START, START + 0.080, {})
    found = placed(sample, profile.read(tmp_path))
    used = {name: 1e3 * x for name, x in found["shown"].items() if x > 1e-9}
    expected = {"graph load": 38, "shuffle": 7, "Spark scheduling": 20, "driver": 15}
    assert used == pytest.approx(expected)


def _found(name: str, seconds: float, warm: bool = True, rest: float = 0.0) -> dict[str, Any]:
    shown = dict.fromkeys(SHOWN, 0.0) | {"kernel": seconds - rest, REST: rest}
    sample = Sample(name, 1, warm, START, START + seconds, {})
    spark = dict.fromkeys(("jobs", "submitted to ended", "queued", "deserialised", "ran"), 1)
    return {**sample.plain(), "seconds": seconds, "shown": shown, "spark": spark}


def test_the_table_says_what_the_chart_draws_of_the_median_run() -> None:
    samples = [_found("bfs", s) for s in (0.030, 0.010, 0.020)]
    samples += [_found("bfs", 2.0, warm=False, rest=0.5)]
    machine = {"date": "2026-01-01", "versions": {}, "cores": 2}
    results = profile.Results(machine, ["bench", "profile"], profile.Sizes())
    results.cases["profile"] = CaseResult("profile", told=samples)
    made = SUITE.document(results)
    warm, first = made.sections
    chart, shown, _ = warm.parts
    assert isinstance(chart, Chart)
    assert isinstance(shown, Table)
    assert chart.kind == "stacked"
    assert [(s.name, s.values) for s in chart.series] == [("kernel", [pytest.approx(20.0)])]
    assert shown.rows == [["breadth-first search, P = 1", "**20.0**", "20.0"]]
    assert isinstance(first.parts[1], Table)
    assert first.parts[1].rows[0][1:] == ["**2.00**", "1.50", "0.50"]
    assert "More than 15% is not accounted for" in made.notes[-1]


def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--partitions", "0"], ["--partitions", "a"], ["--scale", "99"]):
        with pytest.raises(SystemExit) as ended:
            SUITE.main(arguments)
        assert ended.value.code == 2
    assert "give numbers of at least 1, as 1,2,4" in capsys.readouterr().err
