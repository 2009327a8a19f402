"""Edges that expire: every answer is that of a run from scratch on the edges in the window."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from vertexsdk import Changes, Graph, InputError, MainLoop, StateInputError
from vertexsdk.algorithms import ALGORITHMS, ConnectedComponents
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.changes.table import read_rows
from vertexsdk.testing.oracles import disagreements, expected

PARAMS: dict[str, dict[str, Any]] = {"sssp": {"origin": 0}, "pagerank": {"epsilon": 1e-13}}
DAY = 86400


@dataclass
class Window:
    """What a window holds, one event after the other."""

    length: float
    undirected: bool
    edges: dict[Any, float] = field(default_factory=dict)  # with their values
    times: dict[Any, float] = field(default_factory=dict)  # of the newest event
    clock: float = -math.inf
    late: int = 0
    overtaken: int = 0

    def take(self, kind: str, source: Any, target: Any, value: float | None, time: float) -> None:
        edge = (source, target)
        if self.undirected and str(source) > str(target):
            edge = (target, source)
        self.advance(time)
        if time <= self.clock - self.length:
            self.late += 1
        elif time < self.times.get(edge, -math.inf):
            self.overtaken += 1
        else:
            held = edge in self.edges
            if kind == "-":
                self.edges.pop(edge, None)
            elif kind == "+" or held:
                self.edges[edge] = value if value is not None else self.edges.get(edge, 1.0)
            if kind != "~" or (held and edge in self.times):
                self.times[edge] = time

    def advance(self, time: float) -> None:
        self.clock = max(self.clock, time)
        for edge, newest in [*self.times.items()]:
            if newest <= self.clock - self.length:
                self.edges.pop(edge, None)
                del self.times[edge]


def events_of(rng: np.random.Generator, name: Any, count: int, now: float) -> list[Any]:
    """Events about few edges, some of them older than others before them."""
    events = []
    for _ in range(count):
        now += float(rng.choice([0, 0, 0.5, 1, 3], p=[0.3, 0.2, 0.2, 0.2, 0.1]))
        time = now - float(rng.choice([0, 1, 4, 12], p=[0.6, 0.2, 0.15, 0.05]))
        kind = str(rng.choice(["+", "-", "~"], p=[0.7, 0.15, 0.15]))
        value = float(rng.integers(1, 5)) if kind == "~" or rng.random() < 0.5 else None
        ends = (name(int(rng.integers(5))), name(int(rng.integers(5))))
        events.append((kind, *ends, value, time))
    return events


class History:
    """A main loop with a window, and what it must hold."""

    def __init__(self, rng: np.random.Generator, url: str, spark: Any) -> None:
        self.rng, self.spark = rng, spark
        self.program = str(rng.choice(["sssp", "wcc", "pagerank", "degree"]))
        self.strings = bool(rng.integers(2))
        undirected = bool(rng.integers(2))
        partitions = int(rng.integers(1, 4))
        self.options: Any = {"backend": url, "loop": "main", "compiled": False}
        self.options["snapshot_every"] = int(rng.choice([5, 40, 1000]))
        params = {k: self.name(0) if k == "origin" else x for k, x in self.params.items()}
        print(self.program, "strings" * self.strings, undirected, partitions, self.options)
        graph = Graph.from_arrays(
            [self.name(3)], [self.name(4)], [2.0], spark=spark, undirected=undirected,
            partitions=partitions,
        )  # fmt: skip
        self.main = MainLoop(ALGORITHMS[self.program], graph, params=params, **self.options)
        self.window = Window(8.0, undirected, {(self.name(3), self.name(4)): 2.0})
        self.main.window(8.0)
        self.given = 0
        self.abandoned: list[MainLoop] = []

    @property
    def params(self) -> dict[str, Any]:
        return PARAMS.get(self.program, {})

    def name(self, vertex: int) -> Any:
        return f"v{vertex}" if self.strings else vertex

    def ingest(self) -> None:
        now = 0.0 if math.isinf(self.window.clock) else self.window.clock
        events = events_of(self.rng, self.name, int(self.rng.integers(1, 12)), now)
        for event in events:
            self.window.take(*event)
        self.given += len(events)
        rows = [e[:4] for e in events]
        before = self.main.counts
        counts = self.main.ingest(rows, time=[e[4] for e in events])
        after = self.main.counts
        assert counts == {name: after[name] - before[name] for name in after}

    def advance(self) -> None:
        time = 0.0 if math.isinf(self.window.clock) else self.window.clock
        time += float(self.rng.choice([-1, 2, 9]))
        self.window.advance(time)
        self.main.advance(time)

    def check(self) -> None:
        w = self.window
        assert (self.main.counts["late"], self.main.counts["overtaken"]) == (w.late, w.overtaken)
        assert self.main.event_time == (None if math.isinf(w.clock) else w.clock)
        assert self.main.changes == self.given
        assert self.main.progress()["edges"] == len(w.edges)
        number = {self.name(k): k for k in range(5)}
        rows = [(number[a], number[b], x) for (a, b), x in sorted(w.edges.items())]
        if not rows and self.program != "sssp":
            return
        origin = [0] if self.program == "sssp" else []
        wanted = expected(self.program, rows, origin, self.params, undirected=w.undirected)
        with self.main.query() as answer:
            columns = answer.columns()
        ids = [number[v] for v in columns["id"].tolist()]
        got = {v: {f: columns[f].tolist()[k] for f in wanted} for k, v in enumerate(ids)}
        got = {v: {f: number.get(x, x) for f, x in row.items()} for v, row in got.items()}
        assert not disagreements(wanted, got, 1e-9)

    def resume(self) -> None:
        """Close it, or leave it as a process does that is killed."""
        if self.rng.integers(2):
            self.main.close()
        else:
            self.main._history.settle()
            self.abandoned.append(self.main)
        self.main = MainLoop.resume(self.spark, ALGORITHMS[self.program], **self.options)

    def checkpoint(self) -> None:
        self.main._history.take_snapshot()

    def merge(self) -> None:
        """A branch removes an edge, which has no time any more, and checkpoints."""
        if not self.window.edges:
            return
        edge = sorted(self.window.edges)[0]
        with self.main.fork() as branch:
            branch.apply([("-", *edge)])
            if self.rng.integers(2):
                branch._history.take_snapshot()
            if len(self.window.edges) == 1 and self.program != "sssp":
                return
            branch.result(timeout=60).close()
            branch.merge()
            branch.close(forget=True)
        del self.window.edges[edge]
        self.window.times.pop(edge, None)
        self.given += 1


def run_history(rng: np.random.Generator, url: str, spark: Any, steps: int) -> None:
    history = History(rng, url, spark)
    kinds = ["ingest", "advance", "check", "resume", "checkpoint", "merge"]
    try:
        for step in rng.choice(kinds, steps, p=[0.5, 0.1, 0.2, 0.07, 0.05, 0.08]):
            getattr(history, step)()
        history.check()
    finally:
        for main in (*history.abandoned, history.main):
            main.close()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    seed = request.config.getoption("--seed")
    print(f"--seed {seed}")
    return np.random.default_rng(seed)


def test_random_histories(rng: np.random.Generator, tmp_path: Path) -> None:
    for k in range(5):
        url = f"memory://windows-{k}" if k else f"lmdb://{tmp_path}/store-{k}"
        run_history(rng, url, None, 25)


def open_loop(url: str, length: Any = 10, **options: Any) -> MainLoop:
    options = {"loop": "main", "backend": url, "compiled": False, **options}
    return MainLoop(ConnectedComponents, Graph.empty(), **options).window(length)


def answer(main: MainLoop) -> dict[Any, Any]:
    with main.query() as result:
        return result.to_dict()


def test_the_newest_time_of_an_edge_counts() -> None:
    with open_loop("memory://windows-newest") as main:
        main.ingest([("+", 1, 2), ("+", 1, 2), ("+", 3, 4)], time=[0, 5, 8])
        main.ingest([("+", 1, 2)], time=3)  # an older one does not make it older
        assert main.advance(11) == 0
        assert answer(main) == {1: 1, 2: 1, 3: 3, 4: 3}
        assert main.advance(15) == 1
        assert answer(main) == {3: 3, 4: 3}
        counts = main.ingest([("+", 8, 9), ("+", 1, 2)], time=[5, 5.5])
        assert (counts["late"], counts["added"]) == (1, 1)
        assert answer(main) == {1: 1, 2: 1, 3: 3, 4: 3}


def test_a_removal_is_not_undone_by_an_older_event() -> None:
    with open_loop("memory://windows-removal") as main:
        main.ingest([("+", 1, 2), ("+", 2, 3), ("-", 1, 2)], time=[1, 2, 4])
        assert main.ingest([("+", 1, 2)], time=3)["overtaken"] == 1
        assert answer(main) == {2: 2, 3: 2}
        main.close()
        with MainLoop.resume(
            None, ConnectedComponents, loop="main", backend="memory://windows-removal"
        ) as main:
            assert main.ingest([("+", 1, 2)], time=3)["overtaken"] == 1
            assert main.ingest([("+", 1, 2)], time=4)["added"] == 1


def test_a_merge_does_not_turn_the_clock_back() -> None:
    with open_loop("memory://windows-merge") as main:
        main.ingest([("+", 1, 2), ("+", 2, 3)], time=[0, 5])
        with main.fork() as branch:
            branch.apply([("-", 1, 2)])
            branch.result(timeout=60).close()
            main.advance(9)  # nothing expires, so nothing is lost by the merge
            branch.merge()
        assert main.event_time == 9
        assert answer(main) == {2: 2, 3: 2}
        assert main.advance(10) == 0  # the branch removed what would expire
        assert main.advance(15) == 1


def test_batches_do_not_matter(rng: np.random.Generator) -> None:
    events = events_of(rng, int, 60, 0.0)
    answers = []
    for k, size in enumerate((60, 1, 7)):
        with open_loop(f"memory://windows-batches-{k}", 8.0) as main:
            for first in range(0, 60, size):
                some = events[first : first + size]
                main.ingest([e[:4] for e in some], time=[e[4] for e in some])
            counts = main.counts
            graph = main.progress()["edges"]
            answers.append((counts["late"], counts["overtaken"], counts["expired"], graph))
    assert answers[0] == answers[1] == answers[2]


def test_many_edges_expire_by_arrays(rng: np.random.Generator) -> None:
    """The table grows and is made anew while edges expire: what is left is the last window."""
    size, batches = 3000, 8
    with open_loop("memory://windows-many", 1.5) as main:
        left: set[tuple[int, int]] = set()
        for batch in range(batches):
            source, target = rng.integers(0, 10**6, (2, size))
            main.ingest(Changes.from_arrays(np.zeros(size), source, target), time=float(batch))
            edges = set(zip(source.tolist(), target.tolist(), strict=True))
            assert main.progress()["edges"] == len(edges | left)
            left = edges
        assert len(main._history.edge_times()) == main.progress()["edges"]
        assert main._history.edge_times().nbytes < 600 * size  # rows of all batches would be more


@pytest.mark.parametrize("time", [
    [0.0, 3 * DAY], np.array([0, 3 * DAY]), np.array(["1970-01-01", "1970-01-04"], "datetime64[s]"),
    [datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 4)], ["1970-01-01", "1970-01-04"],
    pa.array([0, 3 * DAY * 10**6], pa.timestamp("us")),
])  # fmt: skip
def test_forms_of_times(time: Any) -> None:
    with open_loop("memory://windows-forms", timedelta(days=2), replace=True) as main:
        counts = main.ingest([("+", 1, 2), ("+", 3, 4)], time=time)
        assert (counts["added"], counts["expired"], main.event_time) == (2, 1, 3 * DAY)


def test_timestamps_of_a_table_are_seconds() -> None:
    columns = {"kind": ["+", "+", "+"], "source": [1, 2, 3], "target": [2, 3, 4]}
    columns["at"] = pa.array([DAY * 10**6, None, 10**6 // 2], pa.timestamp("us"))
    read = read_rows(pa.table(columns), LineFormat(integers=True), "the changes", "at")
    assert (read[2].tolist(), len(read[1])) == ([DAY, 0.5], 1)


def test_a_dataframe(spark: SparkSession) -> None:
    rows = [("+", 1, 2, datetime(2026, 1, 1)), ("+", 2, 3, datetime(2026, 1, 3))]
    frame = spark.createDataFrame(rows, "kind string, source long, target long, at timestamp")
    with open_loop("memory://windows-frame", "1d") as main:
        counts = main.ingest(frame.coalesce(1), time="at")
        assert (counts["added"], counts["expired"]) == (2, 1)
        with pytest.raises(InputError, match="name of a column"):
            main.ingest(frame, time=3)


def test_mistakes() -> None:
    with open_loop("memory://windows-mistakes", "2d") as main:
        before = main.iteration
        for wrong, text in [
            (lambda: main.ingest([("+", 1, 2)]), "window of 172800 s: give each change its time"),
            (lambda: main.ingest([("+", 1, 2)], time=[1, 2]), "times of shape (2,) for 1 changes"),
            (lambda: main.ingest([("+", 1, 2)], time=[np.nan]), "time of change 1 is nan"),
            (lambda: main.ingest([("+", 1, 2)], time="soon"), "'soon' is no time"),
            (lambda: main.window("7 parsecs"), "no length of time"),
            (lambda: main.window(-1), "no length of time"),
            (lambda: main.at(), "a version or time=, one of them"),
            (lambda: main.rolling(0, []), "no length of time"),
        ]:
            with pytest.raises(InputError) as error:
                wrong()
            assert text in str(error.value)
            assert "\n" not in str(error.value)
        assert main.iteration == before
        main.strict = True
        main.ingest([("+", 1, 2)], time=0)
        with pytest.raises(InputError, match="change 2 of the batch: there is no edge 8 -> 9"):
            main.ingest([("+", 1, 3), ("-", 8, 9)], time=[DAY, DAY])
        assert main.advance(2 * DAY) == 1  # what was refused left no trace
        assert main.counts["added"] == 1


def test_random_histories_on_processors(rng: np.random.Generator, spark: SparkSession) -> None:
    run_history(rng, "memory://windows-spark", spark, 10)


class Scratch:
    """The edges of the window at any time, from all events in order."""

    def __init__(self, events: list[Any], length: float) -> None:
        self.events, self.length = events, length

    def components(self, time: float) -> dict[Any, Any]:
        window = Window(self.length, False)
        for event in self.events:
            if event[4] <= time:
                window.take(*event)
        window.advance(time)
        rows = [(a, b, x) for (a, b), x in window.edges.items()]
        return expected("wcc", rows, [], {}, undirected=False)["component"]


def ordered_events(rng: np.random.Generator, count: int) -> list[Any]:
    return sorted(events_of(rng, int, count, 0.0), key=lambda e: e[4])


def test_as_of_any_time(rng: np.random.Generator) -> None:
    events = ordered_events(rng, 50)
    scratch = Scratch(events, 8.0)
    with open_loop("memory://windows-as-of", 8.0, snapshot_every=20) as main:
        for first in range(0, 50, 7):
            some = events[first : first + 7]
            main.ingest([e[:4] for e in some], time=[e[4] for e in some])
            if first % 2:
                main.query().close()
        loops = len(main._history.store.loops())
        assert main.event_time is not None
        for time in rng.uniform(events[0][4], main.event_time + 6, 8):
            wanted = scratch.components(float(time))
            if not wanted:
                continue
            with main.at(time=float(time)) as then:
                assert then.to_dict() == wanted
        assert len(main._history.store.loops()) == loops


def test_as_of_a_time_between_events_and_to_come() -> None:
    with open_loop("memory://windows-between") as main:
        main.ingest([("+", 1, 2), ("+", 2, 3), ("~", 2, 3, 5), ("+", 4, 5)], time=[0, 3, 4, 15])
        for time, wanted in [
            (2.5, {1: 1, 2: 1}), (9, {1: 1, 2: 1, 3: 1}), (11, {2: 2, 3: 2}), (13.5, {2: 2, 3: 2}),
            (16, {4: 4, 5: 4}),
        ]:  # fmt: skip
            with main.at(time=time) as then:
                assert then.to_dict() == wanted
                assert then.statistics["event_time"] == time
        with pytest.raises(InputError, match="no edge"):
            main.at(time=14.5)
        assert answer(main) == {4: 4, 5: 4}


def test_as_of_a_time_in_which_nothing_came() -> None:
    with open_loop("memory://windows-silence") as main:
        main.ingest([("+", 1, 2), ("+", 2, 3)], time=[0, 5])
        main._history.take_snapshot()
        main.advance(8)
        main.advance(12)
        for time, wanted in [(7, {1, 2, 3}), (8, {1, 2, 3}), (11, {2, 3}), (12, {2, 3})]:
            with main.at(time=time) as then:
                assert set(then.to_dict()) == wanted


def test_as_of_a_time_where_the_window_came_later() -> None:
    graph = Graph.from_arrays([1], [2])
    with MainLoop(ConnectedComponents, graph, backend="memory://later", compiled=False) as main:
        main.ingest([("+", 2, 3)])
        main.query().close()
        main.window(10).ingest([("+", 8, 9), ("+", 3, 4)], time=[5, 20])
        for time, wanted in [(1, {1, 2, 3}), (5, {1, 2, 3, 8, 9}), (21, {1, 2, 3, 4})]:
            with main.at(time=time) as then:
                assert set(then.to_dict()) == wanted


def test_as_of_a_version_and_a_moment() -> None:
    graph = Graph.from_arrays([1], [2])
    with MainLoop(ConnectedComponents, graph, backend="memory://as-of", compiled=False) as main:
        before = main.iteration
        while datetime.now(UTC).timestamp() <= main._history.manifest.created:
            pass
        moment = datetime.now(UTC)
        main.ingest([("+", 2, 3)])
        main.ingest([("+", 3, 4)])
        for then in (main.at(before), main.at(time=moment), main.at(time=moment.isoformat())):
            with then:
                assert then.to_dict() == {1: 1, 2: 1}
        with pytest.raises(StateInputError, match="no version as old as 1970-01-01"):
            main.at(time=0)


def test_rolling_answers(rng: np.random.Generator, tmp_path: Path) -> None:
    events = ordered_events(rng, 50)
    scratch = Scratch(events, 8.0)
    first, last = (math.ceil(events[k][4] / 2) for k in (0, -1))
    wanted = [(2.0 * k, scratch.components(2.0 * k) or None) for k in range(first, last + 1)]
    file = tmp_path / "changes.txt"
    lines = [f"{e[4]} {e[0]} {e[1]} {e[2]} {e[3] or ''}\n" for e in events]
    file.write_text("".join(lines))

    def batches() -> Iterator[Changes]:
        for k in range(0, 50, 9):
            rows, time = [e[:4] for e in events[k : k + 9]], [e[4] for e in events[k : k + 9]]
            yield dataclasses.replace(Changes.of(rows), time=np.array(time))

    options: dict[str, Any] = {"time": [e[4] for e in events]}
    for k, (changes, more) in enumerate([
        ([e[:4] for e in events], options), (batches(), {}), (file, {"time_column": 1}),
    ]):  # fmt: skip
        with open_loop(f"memory://rolling-{k}", 8.0) as main:
            got = []
            for time, result in main.rolling(2.0, changes, **more):
                got.append((time, None if result is None else result.to_dict()))
                if result is not None:
                    result.close()
            assert got == wanted


def test_rolling_goes_on_after_a_crash(tmp_path: Path) -> None:
    file = tmp_path / "changes.txt"
    file.write_text("".join(f"{k} + {k} {k + 1}\n" for k in range(9)))
    main = open_loop("memory://rolling-crash", 3)
    steps = main.rolling(2, file, time_column=1)
    seen = [time for time, _ in (next(steps), next(steps))]
    with MainLoop.resume(
        None, ConnectedComponents, loop="main", backend="memory://rolling-crash"
    ) as again:
        rest = [time for time, _ in again.rolling(2, file, time_column=1)]
        assert (seen, rest) == ([0.0, 2.0], [2.0, 4.0, 6.0, 8.0])
        assert answer(again) == dict.fromkeys(range(6, 10), 6)
    main.close()


def test_a_stream_of_files(tmp_path: Path) -> None:
    file = tmp_path / "changes.txt"
    file.write_text("0 + 1 2\n9 + 2 3\ninf + 7 8\n6 + 4 5\n11 - 9 9\n")
    with open_loop("memory://windows-files") as main:
        with main.start(file, follow=False, time_column=1) as stream:
            stream.awaitTermination(60)
            assert stream.progress().bad_lines == 1
        assert answer(main) == {2: 2, 3: 2, 4: 4, 5: 4}
        assert main.counts["expired"] == 1
