"""Systems beside ours on a changing graph: their files, their answers, and how they are told of."""

from __future__ import annotations

import sys
from copy import copy
from pathlib import Path

import numpy as np
import pytest

from benchmarks import document, reference
from benchmarks.evolving import beside, instants
from benchmarks.evolving.sizes import Sizes
from benchmarks.evolving.stream import EdgeStream, FileStream
from benchmarks.peers import Unavailable
from benchmarks.processes import Limits
from benchmarks.runner import CaseResult
from benchmarks.streaming import Job, Streamer, run, words
from benchmarks.streaming.dataflow import Dataflow
from benchmarks.streaming.pathway import Pathway
from benchmarks.streaming.plan import Plan, Step, queries, shares
from benchmarks.suites.evolving import SUITE, Results

MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}

PROGRAM = """
import json, sys, time
job = dict(word.split("=", 1) for word in sys.argv[2:])
def rows(name): return [line.split() for line in open(job[name])]
edges, changes, at = {(s, t): v for s, t, v in rows("base")}, rows("changes"), 0
for number, (count, keep) in enumerate(rows("batches")):
    for kind, s, t, *v in changes[at : at + int(count)] if number else []:
        if kind == "+": edges[s, t] = v[0]
        else: del edges[s, t]
    at += int(count) if number else 0
    print(json.dumps({"batch": number, "seconds": 0.5 + number}), flush=True)
    if keep == "1":
        label = {end: int(end) for pair in edges for end in pair}
        changed = True
        while changed:
            changed = False
            for s, t in edges:
                least = min(label[s], label[t])
                changed = changed or label[s] != label[t]
                label[s] = label[t] = least
        if sys.argv[1] == "wrong" and number: label[s] = 999
        with open(f"{job['out']}/answer-{number}.txt", "w") as file:
            file.writelines(f"{end} {value}\\n" for end, value in label.items())
        print(json.dumps({"kept": number}), flush=True)
    if sys.argv[1] == "slow": time.sleep(60)
if sys.argv[1] == "fails": sys.exit("it broke")
"""


class Plain(Streamer):
    """Components by a few lines of Python, for the interface's sake."""

    title, about, surfers, scales = "plain", "", 10, (4,)

    def __init__(self, how: str) -> None:
        self.how = how

    def start(self, cache: Path) -> dict[str, str]:
        return {}

    def command(self, job: Job) -> list[str]:
        return [sys.executable, "-c", PROGRAM, self.how, *words(job)]


def _files(folder: Path, edges: str, changes: str) -> tuple[Path, Path]:
    (folder / "edges.txt").write_text(edges)
    (folder / "changes.txt").write_text(changes)
    return folder / "edges.txt", folder / "changes.txt"


def test_files_of_ones_own_become_a_stream(tmp_path: Path):
    edges, changes = _files(
        tmp_path,
        "# a comment\n1 2 5\n1,3\n1\t2\t7\n",
        "+ 2 3 4\n- 1 9\n+ 1 2 7\n~ 1 3 8\n~ 3 1 8\n- 1 2\n+ 1 2 6\n",
    )
    stream = FileStream(edges, [changes], tmp_path / "made")
    assert (stream.edges, stream.left, stream.idle, stream.origin) == (2, 4, 3, 1)
    first = copy(stream)
    assert len(stream.take(3)) == 3
    assert _edges(stream) == {(1, 3): 8, (2, 3): 4}
    assert len(stream.take(3)) == 1
    assert _edges(stream) == {(1, 2): 6, (1, 3): 8, (2, 3): 4}
    assert _edges(first) == {(1, 2): 7, (1, 3): 1}
    after = instants.graph_of_files(edges, [changes], tmp_path)
    assert (after.edges, after.origin) == (3, 1)
    assert after.answer("shortest_paths").tolist() == [0, 6, 8]
    assert int(after.answer("iterations_enough")[0]) > 1
    for wrong in ("* 1 2", "+ 1", "+ 1 b", "+ 1 2 -3", "+ 1 2 0.5", "+ 1 99999999999"):
        _files(tmp_path, "1 2\n", f"+ 2 3\n{wrong}\n")
        with pytest.raises(ValueError, match=r"changes\.txt:2: "):
            FileStream(edges, [changes], tmp_path / "made")


def _edges(stream: FileStream | EdgeStream) -> dict[tuple[int, int], int]:
    return {(s, t): v for s, t, v in zip(*(c.tolist() for c in stream.columns()), strict=True)}


def test_a_plan_asks_at_the_instants_of_our_own_cases(tmp_path: Path):
    sizes = Sizes(scale=8, changes=50, queries=3, warm=1, shares=(0.01, 0.2))
    stream = EdgeStream(8, tmp_path)
    again = EdgeStream(8, tmp_path)
    edges = stream.edges
    steps = [*queries(sizes), *shares(sizes, edges)]
    assert [step.keep for step in steps] == [False, True, False, False, False, True, True]
    plan = Plan(stream, steps, tmp_path / "plan")
    counts = [int(line.split()[0]) for line in Path(plan.batches).read_text().splitlines()]
    assert max(counts[6:]) <= edges // 100
    assert plan.start == 2
    for step, last in zip(steps, plan.last, strict=True):
        again.take(step.count)
        found = zip(*(column.tolist() for column in plan.after(last)), strict=True)
        assert {(s, t): v for s, t, v in found} == _edges(again)


def test_an_answer_is_checked_before_its_time_is_kept(tmp_path: Path):
    def ended(how: str, seconds: float = 30) -> CaseResult:
        stream = EdgeStream(4, tmp_path)
        steps = [Step(4), Step(6, 1, "query", True), Step(6, 1, "query")]
        plan = Plan(stream, [*steps, Step(6, 2, "0.1", True)], tmp_path / how / "plan")
        limits = Limits(seconds, 4 << 30)
        folder = tmp_path / how
        return run.run(Plain(how), "a-components", plan, 1, 60.0, folder, limits, print)

    right = ended("right")
    assert right.problem is None
    assert right.figures["checked"] == [0, 2, 5]
    assert right.of("query") == [2.5, 3.5]
    assert right.of("last 0.1") == [5.5]
    assert right.of("all 0.1") == [10.0]
    wrong = ended("wrong")
    assert "wrong answer: " in str(wrong.problem)
    assert wrong.of("query") == []
    assert "did not finish in 1 s: 1 answers" in str(ended("slow", 1.0).problem)
    assert "status 1: it broke" in str(ended("fails").problem)


def test_whole_surfers_are_lost_by_rounding_only():
    source, target = np.array([0, 0, 1]), np.array([1, 2, 2])
    assert reference.surfers(source, target, 3, 100, 0).tolist() == [600, 600, 600]
    assert reference.surfers(source, target, 3, 100, 1).tolist() == [100, 350, 850]
    assert reference.surfers(source, target, 3, 100, 2).tolist() == [100, 141, 432]


def test_what_cannot_be_had_says_how_to_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match="no cargo is found"):
        Dataflow().start(tmp_path)
    (tmp_path / "cargo").write_text(
        "#!/bin/sh\necho no network at https://a.b/c/x in /home/me/y >&2\nexit 101\n"
    )
    (tmp_path / "cargo").chmod(0o755)
    with pytest.raises(Unavailable, match=r"could not build it: no network at x in y$"):
        Dataflow().start(tmp_path)
    monkeypatch.setenv("VERTEXSDK_PATHWAY_PYTHON", str(tmp_path / "none"))
    with pytest.raises(Unavailable, match=r"names no file; \./dev bench makes"):
        Pathway().start(tmp_path)


def test_ratios_are_of_the_same_graph_in_the_same_run():
    def found(case: str, seconds: float, problem: str | None = None) -> CaseResult:
        return CaseResult(case, {"query": [seconds], "ingest": [seconds]}, problem)

    results = Results(MACHINE, ["bench", "evolving"], Sizes(shares=(0.01,)))
    case = "a-shortest_paths"
    results.cases[case] = found(case, 0.1)
    one = beside.Beside("Other", "How it is run.", {"other": "1"})
    one.tried = {"R-MAT 16": {case: found(case, 3.0)}}
    one.tried["R-MAT 18"] = {case: found(case, 9.0, "did not finish in 600 s: 2 answers")}
    results.beside["other"] = one
    results.ours = {"R-MAT 16": {case: found(case, 0.01)}}
    text = document.markdown(SUITE.document(results))
    assert "did not finish in 600 s: 2 answers; the largest that it finished is R-MAT 16" in text
    row = next(line for line in text.splitlines() if line.startswith("| Other: shortest paths"))
    assert "R-MAT 16" in row
    assert "150×" in row  # ours is from the changes to the answer too
    assert not results.wrong()
    one.tried["R-MAT 18"][case].problem = "wrong answer: 3 of 5 values differ"
    assert results.wrong()
