"""The live example: the graph it keeps is the messages' own, and every day's line is right."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import networkx as nx
import pytest
from pyspark.sql import SparkSession

from tests.support.example_modules import example_module


@pytest.fixture(scope="module")
def example() -> ModuleType:
    module: ModuleType = example_module("college_messages")
    return module


@pytest.mark.parametrize("window", [None, 1, 3])
def test_the_changes_of_a_window(example: ModuleType, window: int | None) -> None:
    network = example.Network(window)
    edges: set[tuple[int, int]] = set()
    clock, last, late = 0, {}, 0
    for until, day in example.by_day(example.made_up()):
        for source, target, at in day:
            late += at < clock
            clock = max(clock, at)
            last[source, target] = clock
        for sign, *pair in network.changes(day, until):
            (edges.add if sign == "+" else edges.remove)(tuple(pair))
        assert edges == {p for p, t in last.items() if not window or t > until - window * 86_400}
    assert network.late == late > 0


def test_a_line_per_day(
    example: ModuleType, spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = list(example.made_up())
    path = tmp_path / "messages.txt"
    path.write_text("# who whom when\n" + "".join(f"{a} {b} {t}\n" for a, b, t in stream))
    example.main([str(path), "--window", "2"])
    *lines, last = capfd.readouterr().out.splitlines()
    network, graph = example.Network(2), nx.DiGraph()
    for line, (until, day) in zip(lines, example.by_day(stream), strict=True):
        for sign, source, target in network.changes(day, until):
            (graph.add_edge if sign == "+" else graph.remove_edge)(source, target)
        graph.remove_nodes_from(list(nx.isolates(graph)))
        largest = max(map(len, nx.weakly_connected_components(graph)))
        numbers = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:messages|p|e)", line)]
        assert numbers == [len(day), len(graph), graph.number_of_edges()]
        assert f"largest component {largest};" in line
    assert re.search(r"[1-9]\d* removed, [1-9]\d* late\) and 9 queries in", last)


@pytest.mark.parametrize("program", ["pagerank", "bfs"])
def test_other_programs(
    example: ModuleType,
    program: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    made_up = example.made_up
    monkeypatch.setattr(example, "made_up", lambda: made_up(days=1))
    example.main(["--program", program])
    said = {"pagerank": "highest rank ", "bfs": " reached in "}[program]
    assert said in capfd.readouterr().out.splitlines()[0]
