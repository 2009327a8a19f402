"""Main loops with a window, drawn from a seed, and what `Window` says of them.

A history draws everything together: program, ids, direction, partitions, edge attributes, the
length of the window, and the sizes from which tables and batches are handled otherwise; then what
comes to the loop: batches out of order, streams of files, silence, another length, forks of forks,
merges, snapshots, resumes, and other numbers of partitions. After each step the loop must have the
edges that the model has; queries, `at` and `rolling` must answer for them.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.support.window_model import Event, Window
from vertexsdk import Changes, Graph, InputError, MainLoop, Min, Vertex, VertexId, inf, param, state
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.loops import edge_times, history
from vertexsdk.state import version_history
from vertexsdk.testing.oracles import disagreements, expected

__all__ = ["PROGRAMS", "Setting", "WindowHistory", "draw_setting", "small_sizes"]


class Cheapest(Vertex):
    """Least cost from `origin`, an edge's being its length times its lanes."""

    origin: VertexId = param()
    cost: float = state(inf)
    messages = Min(float)
    edge = {"length": float, "lanes": int}  # noqa: RUF012

    def init(self) -> None:
        """Start from the origin."""
        self.cost = 0.0 if self.id == self.origin else inf

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        """Take the least."""
        self.cost = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration: int) -> None:
        """Send along all edges."""
        for target in self.targets:
            self.emit(target, self.cost + target.length * target.lanes)


PROGRAMS: dict[str, tuple[type[Vertex], dict[str, Any]]] = {
    "bfs": (ALGORITHMS["bfs"], {"origin": 0}),
    "cheapest": (Cheapest, {"origin": 0}),
    "degree": (ALGORITHMS["degree"], {}),
    "kcore": (ALGORITHMS["kcore"], {}),
    "pagerank": (ALGORITHMS["pagerank"], {"epsilon": 1e-13, "damping": 0.4}),
    "sssp": (ALGORITHMS["sssp"], {"origin": 0}),
    "wcc": (ALGORITHMS["wcc"], {}),
}
PLACES = [1, 2, 7]


@dataclass(frozen=True)
class Setting:
    """What stays the same in a history.

    Attributes:
        program: of `PROGRAMS`.
        vertices: how many there may be.
        least: rows of the table of edge times for which there is room at first.
        shared: changes from which a batch is stored first, and read from the store.
        joined: small batches of the change log that are joined.
    """

    program: str
    strings: bool
    undirected: bool
    partitions: int
    vertices: int
    length: float
    compiled: Any
    snapshot_every: int
    least: int
    shared: int
    joined: int

    def id(self, number: int) -> Any:
        """A vertex; strings do not order as the numbers that they are made from."""
        return f"n{number * 7919 % 1009}" if self.strings else number


def draw_setting(chance: random.Random) -> Setting:
    """Draw one."""
    program = chance.choice(sorted(PROGRAMS))
    return Setting(
        program=program, strings=chance.random() < 0.6,
        undirected=chance.random() < 0.5, partitions=chance.choice(PLACES),
        vertices=chance.choice([4, 7, 20]), length=chance.choice([3.0, 8.0, 30.0]),
        compiled=program != "cheapest" and chance.choice([False] * 7 + ["require"]),
        snapshot_every=chance.choice([5, 40, 1000]), least=chance.choice([1, 4, 32]),
        shared=chance.choice([3, 1 << 12]), joined=chance.choice([3, 64]),
    )  # fmt: skip


@contextlib.contextmanager
def small_sizes(setting: Setting) -> Iterator[None]:
    """Have tables grow, and batches be joined and shared, at the sizes of a setting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_times, "_LEAST", setting.least)
        patch.setattr(history, "_SHARED", setting.shared)
        patch.setattr(version_history, "_BATCHES", setting.joined)
        yield


class WindowHistory:
    """A main loop with a window, and what it must hold.

    Args:
        url: of its store, which is empty.
        place: a directory for files of changes.
        spark: a session, or None.
    """

    def __init__(
        self, chance: random.Random, setting: Setting, url: str, place: Path, spark: Any = None
    ) -> None:
        self.chance, self.setting, self.place, self.spark = chance, setting, place, spark
        print(setting)
        self.program, given = PROGRAMS[setting.program]
        self.params = {k: setting.id(x) if k == "origin" else x for k, x in given.items()}
        self.options: dict[str, Any] = {
            "backend": url, "loop": "main", "compiled": setting.compiled,
            "snapshot_every": setting.snapshot_every,
        }  # fmt: skip
        attributes = setting.program == "cheapest"
        default: Any = {"length": 1.0, "lanes": 1} if attributes else 1.0
        self.window = Window(setting.length, setting.undirected, default)
        ends = setting.id(3), setting.id(1)
        kept: Any = {"length": [2.0], "lanes": [3]} if attributes else [2.0]
        graph = Graph.from_arrays(
            [ends[0]], [ends[1]], kept, spark=spark, undirected=setting.undirected,
            partitions=setting.partitions,
        )  # fmt: skip
        value = {"length": 2.0, "lanes": 3} if attributes else 2.0
        self.window.edges[self.window.edge(*ends)] = value
        self.main = MainLoop(self.program, graph, params=self.params, **self.options)
        self.main.window(setting.length)
        self.given = self.files = self.offset = 0
        self.abandoned: list[MainLoop] = []
        # The model at each version, and the events of the next one that were not ignored.
        self.moments: list[tuple[Window, list[Event]]] = [(self.window.copy(), [])]

    def step(self) -> None:
        """Do something, and see that the loop has the edges of the model."""
        kinds = {
            self.ingest: 30, self.stream: 6, self.refused: 4, self.repeated: 2, self.advance: 8,
            self.resize: 5, self.query: 10, self.resume: 8, self.rescale: 4, self.snapshot: 5,
            self.branch: 10, self.at_time: 8, self.at_version: 3, self.rolling: 6,
        }  # fmt: skip
        do = self.chance.choices([*kinds], [*kinds.values()])[0]
        print(do.__name__)
        do()
        self.check_counts()

    def close(self) -> None:
        """Close all loops."""
        for main in (*self.abandoned, self.main):
            main.close()

    # What the loop has. ------------------------------------------------------------------------

    def check_counts(self) -> None:
        """See that its counts and its event time are those of the model."""
        w, counts = self.window, self.main.counts
        assert self.main.event_time == (None if math.isinf(w.clock) else w.clock)
        assert (counts["late"], counts["overtaken"]) == (w.late, w.overtaken)
        assert counts["expired"] == w.expired
        assert self.main.changes == self.given
        assert self.main.progress()["edges"] == len(w.edges)

    def check(self, result: Any, window: Window) -> None:
        """See that an answer is that of the edges in a window."""
        with contextlib.closing(result):
            columns = result.columns()
        if self.setting.program == "cheapest":
            wanted = self.costs(window)
        else:
            rows = [(a, b, x) for (a, b), x in sorted(window.edges.items())]
            origin = [self.params["origin"]] if "origin" in self.params else []
            wanted = expected(
                self.setting.program, rows, origin, self.params, undirected=window.undirected
            )
        ids = columns["id"].tolist()
        got = {v: {f: columns[f].tolist()[k] for f in wanted} for k, v in enumerate(ids)}
        assert not disagreements(wanted, got, 1e-9)

    def costs(self, window: Window) -> dict[str, dict[Any, float]]:
        """The right costs, by NetworkX."""
        graph = nx.Graph() if window.undirected else nx.DiGraph()
        graph.add_node(self.params["origin"])
        for edge, value in window.edges.items():
            graph.add_edge(*edge, weight=value["length"] * value["lanes"])
        found = nx.single_source_dijkstra_path_length(graph, self.params["origin"])
        return {"cost": {v: float(found.get(v, math.inf)) for v in graph}}

    # What comes to it. -------------------------------------------------------------------------

    def value(self, *, some: bool) -> Any:
        """A value of an edge, or perhaps none."""
        if not some and self.chance.random() < 0.5:
            return None
        if self.setting.program != "cheapest":
            return float(self.chance.randint(1, 4))
        value = {"length": float(self.chance.randint(1, 4)), "lanes": self.chance.randint(1, 3)}
        if self.chance.random() < 0.5:
            del value[self.chance.choice(["length", "lanes"])]
        return value

    def ends(self) -> tuple[Any, Any]:
        """The ends of an edge, perhaps of one that is there."""
        if self.window.edges and self.chance.random() < 0.4:
            return self.chance.choice(sorted(self.window.edges))
        numbers = self.chance.randrange(self.setting.vertices), self.chance.randrange(4)
        return self.setting.id(numbers[0]), self.setting.id(numbers[1])

    def events(self) -> list[Event]:
        """Events, some of them older than others before them."""
        now, events = max(self.window.clock, 0.0), []
        for _ in range(self.chance.choice([1, 3, 12, 40])):
            now += self.chance.choice([0, 0, 0, 0.5, 0.5, 1, 1, 3, 20 if len(events) == 7 else 0])
            time = now - self.chance.choice([0, 0, 0, 0, 1, 1, 4, self.setting.length, 50])
            sign = self.chance.choice("++++-~")
            value = None if sign == "-" else self.value(some=sign == "~")
            events.append((sign, *self.ends(), value, time))
        return events

    def took(self, before: Window, counted: list[Event]) -> None:
        """Remember the model at a version."""
        self.moments[-1] = (before, counted)
        self.moments.append((self.window.copy(), []))

    def ingest(self) -> None:
        """A batch, with the offset of a source or without."""
        events, before = self.events(), self.window.copy()
        rows, times = rows_of(events), [e[4] for e in events]
        source = {}
        if self.chance.random() < 0.5:
            self.offset += 1
            source = {"source": "s", "offset": self.offset}
        counts, was = self.main.ingest(rows, time=times, **source), before
        self.took(before, self.window.take(events))
        self.given += len(events)
        for name in ("late", "overtaken", "expired"):
            assert counts[name] == getattr(self.window, name) - getattr(was, name)

    def repeated(self) -> None:
        """A batch again, of which nothing may be taken in."""
        if self.offset:
            counts = self.main.ingest(
                [("+", *self.ends())], time=1e6, source="s", offset=self.offset
            )
            assert counts["repeated"] == 1
            self.took(self.window.copy(), [])

    def refused(self) -> None:
        """A batch that is refused leaves no trace."""
        events = self.events()
        absent = ("-", self.setting.id(900), self.setting.id(901), None, self.window.clock + 1)
        if math.isinf(self.window.clock):
            return
        self.main.strict = True
        with pytest.raises(InputError, match="there is no edge"):
            self.main.ingest(
                rows_of([*events, absent]), time=[*(e[4] for e in events), absent[4] + 1000]
            )
        self.main.strict = False

    def stream(self) -> None:
        """A file of events."""
        if self.setting.program == "cheapest":
            return
        events, before = self.events(), self.window.copy()
        self.files += 1
        file = self.place / f"changes-{self.files}.txt"
        file.write_text(lines_of(events))
        with self.main.start(file, follow=False, time_column=1) as stream:
            stream.awaitTermination(60)
        self.took(before, self.window.take(events))
        self.given += len(events)

    def advance(self) -> None:
        """Nothing comes, but time goes on; or it is past already."""
        if math.isinf(self.window.clock) and self.chance.random() < 0.8:
            return
        before = self.window.copy()
        time = max(self.window.clock, 0.0) + self.chance.choice([-1.0, 2.0, self.setting.length])
        self.window.advance(time)
        assert self.main.advance(time) == self.window.expired - before.expired
        self.took(before, [])

    def resize(self) -> None:
        """The window gets another length, and perhaps its own again."""
        before = self.window.copy()
        self.window.resize(self.chance.choice([2.0, 8.0, 25.0]))
        self.main.window(self.window.length)
        self.took(before, [])

    def resume(self) -> None:
        """Close it, or leave it as a process does that is killed; with other partitions or not."""
        if self.chance.random() < 0.5:
            self.main.close()
        else:
            self.main._history.settle()
            self.abandoned.append(self.main)
        partitions = self.chance.choice([None, None, *PLACES]) if self.spark is None else None
        self.main = MainLoop.resume(self.spark, self.program, partitions=partitions, **self.options)

    def rescale(self) -> None:
        """It goes on with other partitions."""
        if self.spark is None:
            self.main.rescale(self.chance.choice(PLACES))

    def snapshot(self) -> None:
        """Its state and its graph are stored."""
        self.main.snapshot()

    # What is asked. ----------------------------------------------------------------------------

    def query(self) -> None:
        """The answer of now."""
        self.check(self.main.query(), self.window)

    def changes(self, window: Window) -> list[tuple[Any, ...]]:
        """Changes of a branch, which have no time."""
        rows: list[tuple[Any, ...]] = []
        for _ in range(self.chance.randint(1, 4)):
            sign = self.chance.choice("+--~")
            ends = self.ends()
            if sign != "+" and window.edges:
                ends = self.chance.choice(sorted(window.edges))
            value = None if sign == "-" else self.value(some=sign == "~")
            rows.append((sign, *ends) if value is None else (sign, *ends, value))
        return rows

    def branch(self) -> None:
        """A what-if, perhaps with one within, and perhaps merged."""
        model = self.window.copy()
        with self.main.fork() as branch:
            given = self.what_if(branch, model)
            if self.chance.random() < 0.3:
                inner = model.copy()
                with branch.fork() as second:
                    self.what_if(second, inner)
                    if self.chance.random() < 0.5:
                        given += second._history.ledger.received - branch._history.ledger.received
                        second.merge()
                        model = inner
                    second.close(forget=True)
            if self.chance.random() < 0.6:
                if self.chance.random() < 0.3:  # meanwhile event time goes on, and nothing expires
                    self.window.advance(self.window.clock)
                branch.merge()
                before = self.window
                self.window, self.given = model, self.given + given
                self.took(before, [])
            branch.close(forget=True)

    def what_if(self, branch: Any, model: Window) -> int:
        """Apply changes to a branch and ask it; return how many they are."""
        rows = self.changes(model)
        branch.apply(rows)
        model.apply(rows)
        if self.chance.random() < 0.3:
            branch._history.take_snapshot()
        if self.chance.random() < 0.7:
            self.check(branch.result(timeout=60), model)
        return len(rows)

    def at_version(self) -> None:
        """The answer of a version."""
        number = self.main.iteration
        model = self.window.copy()
        self.ingest()
        self.check(self.main.at(number), model)

    def at_time(self) -> None:
        """The answer as of a moment: of the past, within a batch, or to come."""
        known = self.moments[-8:]
        low, high = known[0][0].clock, self.window.clock
        if math.isinf(low):
            return
        time = self.chance.choice([
            high + self.chance.choice([0, 1, self.setting.length]), self.chance.uniform(low, high),
            self.chance.choice(known)[0].clock,
        ])  # fmt: skip
        model, events = [m for m in known if m[0].clock <= time][-1]
        model = model.copy()
        model.take(e for e in events if e[4] <= time)
        model.advance(time)
        self.check(self.main.at(time=time), model)

    def rolling(self) -> None:
        """An answer for each step of event time."""
        events = self.events()
        step = self.chance.choice([1.0, 2.5, 10.0])
        size = self.chance.choice([2, len(events)])
        first = events[0][4] if math.isinf(self.window.clock) else self.window.clock
        number, rest, pending = math.ceil(first / step), events, False
        for time, answer in self.main.rolling(step, batches_of(events, size)):
            while rest and rest[0][4] <= number * step:
                self.take_one(rest[0])
                rest, pending = rest[1:], True
            assert time == number * step
            number += 1
            self.window.advance(time)
            self.check(answer, self.window)
            pending = False
        assert not rest
        assert not pending
        self.moments = [(self.window.copy(), [])]

    def take_one(self, event: Event) -> None:
        """Have the model take in an event."""
        self.window.take([event])
        self.given += 1


def rows_of(events: list[Event]) -> list[tuple[Any, ...]]:
    """Events as changes, without their times."""
    return [(s, a, b) if x is None else (s, a, b, x) for s, a, b, x, _ in events]


def lines_of(events: list[Event]) -> str:
    """Events as the lines of a file whose first field is the time."""
    return "".join(
        " ".join(str(x) for x in (time, sign, a, b, value) if x is not None) + "\n"
        for sign, a, b, value, time in events
    )


def batches_of(events: list[Event], size: int) -> Iterator[Changes]:
    """Events as batches with their times."""
    for k in range(0, len(events), size):
        some = events[k : k + size]
        times = np.array([e[4] for e in some])
        yield replace(Changes.of(rows_of(some)), time=times)
