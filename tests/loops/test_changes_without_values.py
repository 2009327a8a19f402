"""A change without a value keeps that of the edge, and gives a new edge 1: however it comes in."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.engine.events.events_programs import Weights
from vertexsdk import Graph, InputError, MainLoop, Sum, Vertex, state


class Incoming(Vertex):
    """The sum of the values of the edges that come in."""

    total: float = state(0.0)
    messages = Sum(float)
    edge = float

    def gather(self, iteration, source, delta):
        self.total = delta.value

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, target.value)


class WholeIncoming(Incoming):
    """The same of ints."""

    total: int = state(0)
    messages = Sum(int)
    edge = int


WAYS = [  # program, partitions, string ids, undirected; in place, computed anew, events
    (Incoming, 1, False, False), (WholeIncoming, 1, False, False), (Incoming, 1, False, True),
    (WholeIncoming, 2, True, False), (Incoming, 7, False, True), (Weights, 1, False, False),
    (Weights, 2, True, True),
]  # fmt: skip
CHANGES = """\
+ 1 2
+ 2 3
+ 3 4 7
+ 3 4
- 4 5
+ 4 5
~ 5 6 3
+ 5 6
- 6 7
+ 6 7 4
+ 6 7
+ 7 8 9
+ 7 8 2
"""
BEFORE = [(1, 2, 5.0), (4, 5, 6.0), (5, 6, 8.0), (6, 7, 9.0)]
AFTER = [(1, 2, 5), (2, 3, 1), (3, 4, 7), (4, 5, 1), (5, 6, 3), (6, 7, 4), (7, 8, 2)]


def name(strings: bool, vertex: Any) -> Any:
    return f"v{vertex}" if strings else int(vertex)


def totals(edges: list[Any], strings: bool, undirected: bool) -> dict[Any, float]:
    out: dict[Any, float] = {}
    for a, b, x in edges:
        out[name(strings, b)] = out.get(name(strings, b), 0) + x
        out[name(strings, a)] = out.get(name(strings, a), 0) + (x if undirected else 0)
    return out


def answer(result: Any) -> dict[Any, float]:
    with closing(result):
        return {v: row["total"] for v, row in result.rows()}


def rows_of(strings: bool) -> list[tuple[Any, ...]]:
    fields = [line.split() for line in CHANGES.splitlines()]
    return [(f[0], name(strings, f[1]), name(strings, f[2]), *map(float, f[3:])) for f in fields]


def open_loop(way: tuple[Any, ...], url: str, spark: Any = None, **options: Any) -> MainLoop:
    program, partitions, strings, undirected = way
    ends = [[name(strings, e[k]) for e in BEFORE] for k in (0, 1)]
    graph = Graph.from_arrays(
        *ends, [e[2] for e in BEFORE], spark=spark, undirected=undirected, partitions=partitions
    )
    return MainLoop(program, graph, backend=url, loop="incoming", **options)


def ingest(main: MainLoop, form: str, strings: bool, folder: Path, spark: Any) -> None:
    rows = rows_of(strings)
    if form == "tuples":
        assert main.ingest(rows)["unchanged"] == 4
    elif form == "file":
        text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
        if main.value == "int64":
            text = text.replace(".0", "")
        (folder / "changes.txt").write_text(text)
        stream = main.start(str(folder / "changes.txt"), follow=False)
        stream.awaitTermination()
        assert stream.progress().bad_lines == 0
    else:
        kind = "string" if strings else "long"
        full = [(*row, None)[:4] for row in rows]
        frame = spark.createDataFrame(
            full, f"kind string, source {kind}, target {kind}, value double"
        ).coalesce(1)
        main.ingest(frame)


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", ["tuples", "file"])
@pytest.mark.parametrize("way", WAYS)
def test_values_that_stay(way: tuple[Any, ...], form: str, tmp_path: Path) -> None:
    check(way, form, tmp_path, None)


@pytest.mark.parametrize("way", [WAYS[0], WAYS[3], WAYS[6]])
def test_values_that_stay_on_spark(way: tuple[Any, ...], tmp_path: Path, spark: Any) -> None:
    check(way, "dataframe", tmp_path, spark)


def check(way: tuple[Any, ...], form: str, folder: Path, spark: Any) -> None:
    """One batch; the log as another process reads it; forks of both versions."""
    program, _, strings, undirected = way
    url = f"lmdb://{folder}/state"
    wanted = totals(AFTER, strings, undirected)
    main = open_loop(way, url, spark)
    assert answer(main.query()) == totals(BEFORE, strings, undirected)
    before = main.iteration
    ingest(main, form, strings, folder, spark)
    assert answer(main.query()) == wanted
    main._history.engine.close()  # its driver is killed: there is a log, and no checkpoint
    main._history.store.close()
    main = MainLoop.resume(spark, program, backend=url, loop="incoming", trusted=True)
    with main, main.fork("before", at=before) as old, main.fork("now") as new:
        assert answer(main.query()) == wanted
        new.apply([("+", name(strings, 1), name(strings, 2))])
        assert answer(new.result(timeout=60)) == wanted
        old.apply(rows_of(strings))
        assert answer(old.result(timeout=60)) == wanted


@pytest.mark.parametrize("way", [WAYS[0], WAYS[3], WAYS[5]])
def test_a_strict_loop_takes_them(way: tuple[Any, ...], tmp_path: Path) -> None:
    a, b = (name(way[2], v) for v in (1, 2))
    with open_loop(way, f"lmdb://{tmp_path}/state", strict=True) as main:
        assert main.ingest([("+", a, b), ("+", b, a, None)])["unchanged"] == 1
        with pytest.raises(InputError, match=r"no edge v?2 -> v?9 to remove or change"):
            main.ingest([("+", a, b), ("-", b, name(way[2], 9))])
        with pytest.raises(InputError, match="is not a change"):
            main.ingest([("~", a, b)])
        assert answer(main.query())[b] == 5
