"""Edges that expire: every answer is that of a run from scratch on the edges in the window."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.seeds import seed
from tests.support.window_histories import Setting, WindowHistory, draw_setting, small_sizes
from tests.support.window_model import Window
from vertexsdk import Changes, Graph, InputError, MainLoop, MainLoops, StateInputError
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.changes.table import read_rows
from vertexsdk.testing.oracles import expected

DAY = 86400


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


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    seed = request.config.getoption("--seed")
    print(f"--seed {seed}")
    return np.random.default_rng(seed)


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", range(6))
def test_random_histories(number: int, tmp_path: Path) -> None:
    chance = random.Random(seed())
    url = f"lmdb://{tmp_path}/store" if number % 3 == 0 else f"memory://windows-{number}"
    run_history(chance, draw_setting(chance), url, tmp_path, 20)


@pytest.mark.full
@pytest.mark.parametrize("number", range(40))
def test_many_random_histories(number: int, tmp_path: Path) -> None:
    chance = random.Random(seed())
    url = chance.choice([f"memory://many-windows-{number}", f"lmdb://{tmp_path}/store"])
    run_history(chance, draw_setting(chance), url, tmp_path, 40)


def run_history(
    chance: random.Random, setting: Setting, url: str, place: Path, steps: int, spark: Any = None
) -> None:
    with (
        small_sizes(setting),
        contextlib.closing(WindowHistory(chance, setting, url, place, spark)) as history,
    ):
        for _ in range(steps):
            history.step()
        history.query()


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


@pytest.mark.parametrize("ids", ["int", "string"])
@pytest.mark.parametrize("partitions", [1, 7])
def test_edges_of_many_names_expire(ids: str, partitions: int) -> None:
    """The table of times is made anew within a batch: the codes of its names change meanwhile."""

    def name(kind: str, k: int) -> Any:
        return k if ids == "int" else f"{kind}{k}"

    graph = Graph.empty(int if ids == "int" else str, partitions=partitions)
    url = f"memory://windows-names-{ids}-{partitions}"
    with MainLoop("degree", graph, backend=url, compiled=False).window(100) as main:
        size, given = 1100, []
        for first in range(0, 3 * size, size):
            given = [(name("u", k), name("w", k + 7)) for k in range(first, first + size)]
            main.ingest([("+", *edge) for edge in given], time=[*range(first, first + size)])
        wanted = expected("degree", given[-100:], [], {}, undirected=False)["degree"]
        assert main.counts["expired"] == 3 * size - 100
        assert answer(main) == wanted


@pytest.mark.parametrize("ids", ["int", "string"])
def test_a_value_of_an_edge_without_a_time_counts_from_its_own_time_on(ids: str) -> None:
    one, two, three, four = (k if ids == "int" else f"v{k}" for k in range(1, 5))
    graph = Graph.from_arrays([one], [two], [2.0])
    options: Any = {"params": {"origin": one}, "backend": f"memory://windows-{ids}"}
    with MainLoop("sssp", graph, compiled=False, **options).window(100) as main:
        main.ingest([("+", one, four)], time=1)
        main.ingest([("~", one, two, 7.0), ("+", one, three), ("~", one, two, 9.0)],
                    time=[20, 5, 40])  # fmt: skip
        for time, length in [(2, 2.0), (10, 2.0), (20, 7.0), (39, 7.0), (40, 9.0)]:
            with main.at(time=time) as then:
                assert then.lookup(two)[two]["length"] == length


def test_an_origin_of_a_graph_that_is_still_empty() -> None:
    options: Any = {"params": {"origin": "b"}, "backend": "memory://windows-origin", "loop": "m"}
    with MainLoop("bfs", Graph.empty(str), compiled=False, **options).window(10) as main:
        main.ingest([("+", "b", "c"), ("+", "a", "b"), ("+", "c", "d")], time=[1, 2, 3])
        assert {v: x for v, x in answer(main).items() if x < 9} == {"b": 0, "c": 1, "d": 2}
        main.close()
        with MainLoop.resume(None, "bfs", loop="m", backend="memory://windows-origin") as main:
            main.advance(12)
            assert {v: x for v, x in answer(main).items() if x < 9} == {"b": 0}


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_program_that_comes_later_names_a_vertex_that_is_not_there(partitions: int) -> None:
    """Its name sorts before others, so that edges which are stored by ranks get other ones."""
    url = f"memory://windows-later-{partitions}"
    graph = Graph.from_arrays(["c", "d"], ["d", "e"], partitions=partitions)
    with MainLoops(["wcc"], graph, backend=url, loop="m", compiled=False) as loops:
        loops.window(10).ingest([("+", "e", "f")], time=1)
    options: Any = {"params": {"bfs": {"origin": "b"}}, "loop": "m", "compiled": False}
    with MainLoops.resume(None, ["wcc", "bfs"], backend=url, **options) as loops:
        loops.ingest([("+", "b", "d")], time=2)
        answers = {name: result.to_dict() for name, result in loops.query().items()}
    assert {v: x for v, x in answers["bfs"].items() if x < 9} == {"b": 0, "d": 1, "e": 2, "f": 3}
    assert answers["wcc"] == dict.fromkeys("bcdef", "b")


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
            (lambda: main.ingest([("+", 1, 2)], time="soon"), "'soon' is not a time"),
            (lambda: main.window("7 parsecs"), "not a length of time"),
            (lambda: main.window(-1), "not a length of time"),
            (lambda: main.at(), "a version or time=, one of them"),
            (lambda: main.rolling(0, []), "not a length of time"),
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


def test_random_histories_on_processors(tmp_path: Path, spark: SparkSession) -> None:
    chance = random.Random(seed())
    setting = replace(draw_setting(chance), compiled=False, partitions=2)
    run_history(chance, setting, "memory://windows-spark", tmp_path, 10, spark)


class Scratch:
    """The edges of the window at any time, from all events in order."""

    def __init__(self, events: list[Any], length: float) -> None:
        self.events, self.length = events, length

    def components(self, time: float) -> dict[Any, Any]:
        window = Window(self.length, False)
        for event in self.events:
            if event[4] <= time:
                window.take([event])
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
            (14.5, {}), (16, {4: 4, 5: 4}),
        ]:  # fmt: skip
            with main.at(time=time) as then:
                assert then.to_dict() == wanted
                assert then.statistics["event_time"] == time
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
    wanted = [(2.0 * k, scratch.components(2.0 * k)) for k in range(first, last + 1)]
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
                got.append((time, result.to_dict()))
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
