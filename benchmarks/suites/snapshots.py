"""Suite ``snapshots``: what snapshots cost a main loop, and how fast it is back after a loss."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import answers, cells
from benchmarks.answers import Wrong
from benchmarks.document import Chart, Table, bars, lines
from benchmarks.evolving.cases import changes_of
from benchmarks.evolving.stream import ADD, REMOVE, Batch, EdgeStream
from benchmarks.options import option
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled
from benchmarks.targets import Target, median, ratio
from benchmarks.turns import KINDS, snapshot_options, there_and_back
from vertexsdk import Budget, Changes, Graph, MainLoop, Min, Vertex, inf, run, session, state
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.program.vertex import Delta
from vertexsdk.state import open_store

Results = SuiteResults


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    scale: int = option(18, "of R-MAT")
    batch: int = option(20_000, "changes between two queries")
    intervals: tuple[float, ...] = option(
        (0.5, 1.0, 3.0, 10.0), "seconds between snapshots: 0.5,1,3,10"
    )
    turn: float = option(6.0, "seconds of a turn, at least")
    turns: int = option(4, "turns of each kind every 3 s")
    states: tuple[int, ...] = option((10, 100, 1000), "MB of state: 10,100,1000")
    shares: tuple[int, ...] = option((1, 10, 100), "percent of rows that change")
    pauses: int = option(200, "snapshots of each such state, at most")
    patience: float = option(5.0, "seconds for these, at most")
    restored: int = option(400, "MB of state that are restored")
    repeats: int = option(2, "of each restoration")
    losses: int = option(3, "processors that are killed")
    snapshots: int = option(86_400, "of the simulated day")
    cores: int = 2


ROW = 128  # bytes of a vertex's fields


class Wide(Vertex):
    """Sixteen fields that follow from the values of the edges to a vertex."""

    a: float = state(inf)
    b: float = state(inf)
    c: float = state(inf)
    d: float = state(inf)
    e: float = state(inf)
    f: float = state(inf)
    g: float = state(inf)
    h: float = state(inf)
    i: float = state(inf)
    j: float = state(inf)
    k: float = state(inf)
    l: float = state(inf)  # noqa: E741  (a field like the others)
    m: float = state(inf)
    n: float = state(inf)
    o: float = state(inf)
    p: float = state(inf)

    messages = Min(float)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.a = delta.value * 1.0
        self.b = delta.value * 1.1
        self.c = delta.value * 1.2
        self.d = delta.value * 1.3
        self.e = delta.value * 1.4
        self.f = delta.value * 1.5
        self.g = delta.value * 1.6
        self.h = delta.value * 1.7
        self.i = delta.value * 1.8
        self.j = delta.value * 1.9
        self.k = delta.value * 2.1
        self.l = delta.value * 2.2
        self.m = delta.value * 2.3
        self.n = delta.value * 2.4
        self.o = delta.value * 2.5
        self.p = delta.value * 2.6

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, target.value)


def ring(megabytes: float, spark: Any = None, partitions: int = 1) -> Graph:
    """A graph with so many MB of state: each vertex has one edge to it, with a random value."""
    source = np.arange(vertices(megabytes))
    value = np.random.default_rng(1).random(source.size)
    return Graph.from_arrays(source, np.roll(source, -1), value, spark=spark, partitions=partitions)


def vertices(megabytes: float) -> int:
    """How many have so many MB of state."""
    return max(10, int(megabytes * 1e6) // ROW)


class Rows:
    """Changes of some rows of a `ring`.

    Each makes the values of edges smaller than all before, so that the loop goes on from its state.

    Args:
        megabytes: of the ring.
    """

    def __init__(self, megabytes: float) -> None:
        self._n, self._rng, self._least = vertices(megabytes), np.random.default_rng(2), 0

    def changes(self, percent: float) -> Changes:
        """A batch which gives so many percent of the vertices another state."""
        number = max(1, round(self._n * percent / 100))
        source = np.sort(self._rng.choice(self._n, number, replace=False))
        self._least -= 1
        value = self._least + self._rng.random(number)
        return Changes.from_arrays(
            np.zeros(number, np.uint8), source, (source + 1) % self._n, value
        )


AIM = 3.0  # seconds between snapshots, of the target


_BATCHES = 20


_SPARE_SLOTS = 2  # of the session, beside those of the processors of all loops


class Circle:
    """Batches of changes that lead back to the graph they began with, again and again.

    Args:
        scale: of R-MAT.
        cache: where graphs are kept.
        size: changes in a batch.
    """

    def __init__(self, scale: int, cache: Path, size: int) -> None:
        self._given = scale, cache
        self.size = size
        stream = EdgeStream(scale, cache)
        there = [stream.take(size) for _ in range(_BATCHES)]
        back = [
            Batch(ADD + REMOVE - each.kind, each.source, each.target, each.value)
            for each in reversed(there)
        ]
        self._changes = [changes_of(each) for each in (*there, *back)]

    def changes(self, number: int) -> Any:
        """The batch of this number, from 0."""
        return self._changes[number % len(self._changes)]

    def graph(self, number: int) -> EdgeStream:
        """The graph after so many batches."""
        number %= len(self._changes)
        stream = EdgeStream(*self._given)
        for _ in range(min(number, len(self._changes) - number)):
            stream.take(self.size)
        return stream


class FollowingLoop:
    """A main loop, and how many of the batches it has taken in."""

    def __init__(self, main: MainLoop, circle: Circle) -> None:
        self.main, self.circle, self.batches = main, circle, 0

    def step(self) -> None:
        """Ingest a batch, and ask."""
        self.main.ingest(self.circle.changes(self.batches))
        self.main.query().close()
        self.batches += 1

    def rate(self, seconds: float) -> float:
        """Changes per second, of so many seconds."""
        began, before = time.perf_counter(), self.batches
        while time.perf_counter() - began < seconds:
            self.step()
        return (self.batches - before) * self.circle.size / (time.perf_counter() - began)

    def rest(self, seconds: float) -> None:
        """Wait until the last changes are in a snapshot, which would else disturb the next turn."""
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            age = self.main.progress()["snapshot_age"]
            if age is not None and age < time.perf_counter() - began:
                return
            time.sleep(0.02)

    def check(self) -> None:
        """Compare the answer with one from scratch.

        Raises:
            Wrong: they differ.
        """
        result = self.main.query()
        columns = result.columns()
        found = {"id": columns["id"], "value": columns["length"]}
        answers.check("shortest_paths", self.circle.graph(self.batches), found)
        result.close()


def intervals(processors: int, spark: bool, process: CaseProcess, sizes: Sizes) -> None:
    """Note rates by kind and interval, and what the snapshots came to."""
    circle = Circle(sizes.scale, process.cache, sizes.batch)
    start = circle.graph(0)
    opened = session(f"local[{len(KINDS) * (processors + 1) + _SPARE_SLOTS}]") if spark else None
    graph = Graph.read(opened, edges=start.parquet, partitions=processors)
    for every in sizes.intervals:
        loops = {}
        for kind in KINDS:
            main = MainLoop(
                ShortestPaths, graph, params={"origin": start.origin}, loop=f"{kind}-{every:g}",
                backend=f"lmdb://{process.scratch}/{every:g}-{kind}",
                **snapshot_options(kind, every),
            )  # fmt: skip
            loops[kind] = FollowingLoop(main, circle)
            main.query().close()
            for _ in range(3):
                loops[kind].step()
        for number in range(sizes.turns if every == AIM else 1):
            for kind in there_and_back(KINDS, number):
                _turn(process, loops[kind], f"{kind} {every:g}", max(sizes.turn, 2 * every))
                if kind != "none":
                    loops[kind].rest(every + 2.0)
        for loop in loops.values():
            loop.check()
            loop.main.close()


def _turn(process: CaseProcess, loop: FollowingLoop, name: str, seconds: float) -> None:
    before = loop.main.progress()["snapshots"]
    process.note(name, loop.rate(seconds))
    now = loop.main.progress()
    if now["snapshots"] > before:
        process.note(f"{name} count", now["snapshots"] - before)
        for what in ("pause", "seconds", "bytes"):
            process.note(f"{name} {what}", now[f"snapshot_{what}"])


_LARGE = 300  # MB; of larger states only the smallest share of rows is changed


_REST = 0.5  # seconds in which what is under way is stored


_STORED = 60.0  # seconds until a snapshot must be stored


def pauses(partitions: int, process: CaseProcess, sizes: Sizes) -> None:
    """Note the pause of every snapshot, and how long it took until it was stored."""
    for megabytes in sizes.states:
        graph = ring(megabytes, partitions=partitions)
        with MainLoop(
            Wide, graph, backend=f"lmdb://{process.scratch}/{megabytes}", budget=Budget(),
            snapshot_every="20ms", retain=2,
        ) as main:  # fmt: skip
            main.query().close()
            rows = Rows(megabytes)
            main.ingest(rows.changes(1))
            _stored(main, 0)  # the first is of all rows
            shares = sizes.shares if megabytes <= _LARGE else sizes.shares[:1]
            for percent in shares:
                _measure(process, sizes, main, rows, megabytes, percent)
        graph.unpersist()


def _measure(
    process: CaseProcess, sizes: Sizes, main: MainLoop, rows: Rows, megabytes: int, percent: int
) -> None:
    name = f"{megabytes} MB {percent} %"
    time.sleep(_REST)
    ends = time.perf_counter() + sizes.patience
    for number in range(sizes.pauses):
        changes, before = rows.changes(percent), main.progress()["snapshots"]
        process.timed(f"{name} ingest", partial(main.ingest, changes))
        now = _stored(main, before)
        process.note(f"{name} pause", now["snapshot_pause"])
        process.note(f"{name} stored", now["snapshot_seconds"])
        process.note(f"{name} bytes", now["snapshot_bytes"])
        if number >= 2 and time.perf_counter() > ends:
            break
    if main.read().statistics["start"] != "warm":
        raise Wrong(f"{name}: it began with init: {main.read().statistics}")
    if main.progress()["behind"]:
        raise Wrong(f"{name}: {main.progress()['behind']} changes are not in the state")


def _stored(main: MainLoop, before: int) -> dict[str, float]:
    """Wait for one more snapshot than before; the loop's progress then."""
    ends = time.perf_counter() + _STORED
    while time.perf_counter() < ends:
        now = main.progress()
        if now["snapshots"] > before:
            return now
        time.sleep(0.002)
    raise Wrong(f"no snapshot was stored in {_STORED:.0f} s")


BEFORE, AFTER = (1, 2), (1, 2, 4)


_SLOTS = 6  # of the session


def restoring(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds from `MainLoop.resume` to the first query and to the first lookup."""
    spark = session(f"local[{_SLOTS}]")
    n = vertices(sizes.restored)
    asked = [0, n // 2, n - 1]
    for before in BEFORE:
        backend = f"lmdb://{process.scratch}/{before}"
        graph = ring(sizes.restored, spark, before)
        began = time.perf_counter()
        with MainLoop(Wide, graph, backend=backend, budget=Budget()) as main:
            main.ingest(Rows(sizes.restored).changes(1))
            main.snapshot()
            process.note(f"bytes {before}", main.progress()["snapshot_bytes"])
            process.note(f"stored {before}", main.progress()["snapshot_seconds"])
            right = main.lookup(asked, "p")
        graph.unpersist()
        process.note(f"prepared {before}", time.perf_counter() - began)
        for _ in range(sizes.repeats):
            for after in AFTER:
                began = time.perf_counter()
                with MainLoop.resume(spark, Wide, backend=backend, partitions=after) as main:
                    resumed = time.perf_counter()
                    answer = main.query()
                    took = time.perf_counter()
                    found = main.lookup(asked, "p")
                    warm = answer.statistics["start"] == "warm"
                    answer.close()
                    process.note(f"{before} to {after}", took - began)
                    process.note(f"{before} to {after} resume", resumed - began)
                if not warm or [found[v]["p"] for v in asked] != [right[v]["p"] for v in asked]:
                    raise Wrong(f"{before} to {after}: it did not go on from the snapshot")


BEFORE_LOSS, AFTER_LOSS, WIDTH = (
    3.0,
    10.0,
    0.5,
)  # seconds: around a loss, and of a bar


_LOSS_BATCH = 2_000


def losses(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds from each kill to the next answer, and changes per second around it."""
    circle = Circle(sizes.scale, process.cache, min(_LOSS_BATCH, sizes.batch))
    start = circle.graph(0)
    graph = Graph.read(session("local[4]"), edges=start.parquet, partitions=2)
    with MainLoop(
        ShortestPaths, graph, params={"origin": start.origin}, snapshot_every="1s",
        backend=f"lmdb://{process.scratch}/state",
    ) as main:  # fmt: skip
        main.query().close()
        loop = FollowingLoop(main, circle)
        loop.rate(BEFORE_LOSS)
        for number in range(sizes.losses):
            _Loss(process, loop).measure(_processors(main)[number % 2])
        process.note("restarts", main.progress()["restarts"])
        loop.check()


def _processors(main: MainLoop) -> list[int]:
    """The processes that hold the loop's partitions."""
    engine: Any = main._history.engine
    found: list[int] = engine.graph.workers.run(lambda partition: os.getpid())
    return found


class _Loss:
    """One kill: when it was, and when answers came."""

    def __init__(self, process: CaseProcess, loop: FollowingLoop) -> None:
        self.process, self.loop = process, loop
        self.killed = 0.0

    def measure(self, victim: int) -> None:
        """Ingest, kill in the midst of it, and go on."""
        began = time.perf_counter()
        timer = threading.Timer(BEFORE_LOSS, self._kill, (victim,))
        timer.start()
        steps: list[tuple[float, float]] = []  # beginning and end
        while time.perf_counter() - began < BEFORE_LOSS + AFTER_LOSS or steps[-1][0] < self.killed:
            before = time.perf_counter()
            self.loop.step()
            steps.append((before, time.perf_counter()))
        timer.join()
        after = [end for start, end in steps if start >= self.killed]
        self.process.note("answered", after[0] - self.killed)
        self.process.note("longest", max(end - start for start, end in steps))
        size = self.loop.circle.size
        for number in range(round((BEFORE_LOSS + AFTER_LOSS) / WIDTH)):
            low = self.killed - BEFORE_LOSS + number * WIDTH
            count = sum(low <= end < low + WIDTH for _, end in steps)
            self.process.note(f"rate {number}", count * size / WIDTH)

    def _kill(self, victim: int) -> None:
        self.killed = time.perf_counter()
        os.kill(victim, signal.SIGKILL)


MOMENTS = (10, 25, 50, 75, 100)  # percent of the day


_VERTICES, _EDGES = 1_000, 4_000


def day(process: CaseProcess, sizes: Sizes) -> None:
    """Note bytes on disk, segments and versions at some moments of the day."""
    rng = np.random.default_rng(3)
    pairs = np.unique(rng.integers(0, _VERTICES, (2, _EDGES)), axis=1)
    length = rng.random(pairs.shape[1])
    folder = Path(process.scratch, "state")
    url = f"lmdb://{folder}"
    graph = Graph.from_arrays(*pairs, length)
    moments = {max(1, sizes.snapshots * each // 100): each for each in MOMENTS}
    with MainLoop(
        ShortestPaths, graph, params={"origin": int(pairs[0, 0])}, backend=url, loop="day",
        budget=Budget(), snapshot_every=1, snapshots="synchronous",
    ) as main:  # fmt: skip
        main.query().close()
        first, began = main.progress()["snapshots"], time.perf_counter()
        for number in range(1, sizes.snapshots + 1):
            at = int(rng.integers(pairs.shape[1]))
            length[at] = rng.random()
            main.ingest([("+", int(pairs[0, at]), int(pairs[1, at]), float(length[at]))])
            if number in moments:
                _look(process, folder, url, moments[number])
        process.note("seconds", time.perf_counter() - began)
        process.note("snapshots", main.progress()["snapshots"] - first)
        _check(main, pairs, length)


def _look(process: CaseProcess, folder: Path, url: str, moment: int) -> None:
    files = [file for file in folder.rglob("*") if file.is_file()]
    process.note(f"bytes {moment}", sum(file.stat().st_blocks * 512 for file in files))
    with open_store(url) as store:
        segments = list(store.backend.list_segments())
        process.note(f"segments {moment}", len(segments))
        process.note(f"versions {moment}", len(store.versions("day")))


def _check(main: MainLoop, pairs: np.ndarray, length: np.ndarray) -> None:
    right = run(
        ShortestPaths, Graph.from_arrays(*pairs, length), params=main.params,
        backend="memory://right", progress=False,
    )  # fmt: skip
    answer = main.query()
    if answer.to_dict() != right.to_dict():
        raise Wrong("the distances are not those of a run from scratch")
    answer.close()
    right.close()


CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "intervals-2": partial(intervals, 2, True),
    "intervals-4": partial(intervals, 4, True),
    "intervals-inprocess": partial(intervals, 2, False),
    "pause-1": partial(pauses, 1),
    "pause-2": partial(pauses, 2),
    "restore": restoring,
    "loss": losses,
    "day": day,
}


_LEAST = 20  # pauses, for a 99th percentile to be judged


def _pause(case: str, r: Results) -> float | None:
    name = "100 MB 1 % pause"
    if len(r.figures(case, name)) < _LEAST:
        return None
    seconds = r.percentile(case, name, 99)
    return None if seconds is None else 1e3 * seconds


def _targets() -> Iterator[Target[Results]]:
    for count in (2, 4):
        title = f"throughput with asynchronous snapshots every {AIM:g} s / none, {count} processors"
        kept = ratio(f"intervals-{count}", f"asynchronous {AIM:g}", other=f"none {AIM:g}")
        yield Target(title, kept, 0.97, "×", True)
    for count in (1, 2):
        title = f"pause by a snapshot, 99 %, 100 MB, 1 % of the rows, {count} partitions"
        yield Target(title, partial(_pause, f"pause-{count}"), 5.0, "ms")
    yield Target("a state restored by 2 from 2", median("restore", "2 to 2"), 3.0, "s")
    faster = ratio("restore", "1 to 1", other="2 to 2")
    yield Target("a state restored by 1 from 1 / by 2 from 2", faster, 1.6, "×", True)
    answered = median("loss", "answered")
    yield Target("the next answer after a processor is killed", answered, 5.0, "s")
    grown = ratio("day", "bytes 100", other="bytes 10")
    yield Target("bytes on disk after a day / after a tenth of it", grown, 2.0)


def _notes(r: Results) -> list[str]:
    return [
        f"Throughput: R-MAT {r.sizes.scale} without parallel edges, shortest paths, a query after "
        f"each batch of {r.sizes.batch:,} changes, LMDB. Loops of the same graph take turns in one "
        "process; *none* never stores its graph either, which a loop does by default when its "
        "change log is long. The answer of each loop at the end equals one from scratch.",
        "Pauses: a program with 16 fields, 128 bytes for each vertex, in process; between two "
        "snapshots so many percent of the vertices get another state. The pause is that of the "
        "partition that stood still longest.",
        "Restoring: from the call of `MainLoop.resume` to the exact answer of the first query; "
        "the same program, the state alone is so large.",
        "A loss: SIGKILL to the process of one partition of two, snapshots every second; seconds "
        "from the kill to the first answer to a query that was asked after it.",
        "A day: a graph of 4,000 edges, one change and one synchronous snapshot after the other.",
    ]


_PLACES = {
    "intervals-2": "2 processors",
    "intervals-4": "4 processors",
    "intervals-inprocess": "2 partitions in process",
}


def _sections(r: Results) -> list[tuple[str, Parts]]:
    return [
        ("Throughput by interval", [
            part for case in _PLACES for part in (_throughput(r, case), _throughput_chart(r, case))
        ]),
        ("Pauses", [_pauses(r)]),
        ("Restoring", [_restored(r)]),
        ("A processor is lost", [_lost(r), _loss_chart(r)]),
        ("A day of snapshots", [_day(r)]),
    ]  # fmt: skip


def _throughput(r: Results, case: str) -> Table | None:
    head = ["interval", "snapshots", "changes/s", "/ none", "pause, ms", "stored in, s", "MB"]
    return filled(head, (
        [
            f"{every:g} s", kind, r.number(case, name),
            r.times(case, name, case, f"none {every:g}"), r.scaled(case, f"{name} pause", 1e3),
            r.seconds(case, f"{name} seconds"), r.scaled(case, f"{name} bytes", 1e-6),
        ]
        for every in r.sizes.intervals for kind in KINDS if (name := f"{kind} {every:g}")
    ), 2, _PLACES[case])  # fmt: skip


def _throughput_chart(r: Results, case: str) -> Chart | None:
    """Bars for each interval, a series for each kind of snapshot."""
    names = [f"{every:g}" for every in r.sizes.intervals]
    series = {kind: [r.median(case, f"{kind} {name}") for name in names] for kind in KINDS}
    title = f"Changes per second, {_PLACES[case]}"
    return bars(title, "changes/s", [f"every {name} s" for name in names], series, log=False)


def _loss_chart(r: Results) -> Chart | None:
    """A line of changes per second over the seconds around a loss."""
    numbers = range(round((BEFORE_LOSS + AFTER_LOSS) / WIDTH))
    at = [number * WIDTH - BEFORE_LOSS for number in numbers]
    series = {"ours": [r.median("loss", f"rate {number}") for number in numbers]}
    title, names = "Changes per second around the loss of a processor", [f"{x:g}" for x in at]
    return lines(title, "changes/s", at, names, "seconds since", series, log=False)


def _pauses(r: Results) -> Table | None:
    head = [
        "state", "partitions", "rows changed", "snapshots", "pause, ms: median", "99 %",
        "stored in, s", "MB stored", "ingest, s",
    ]  # fmt: skip
    return filled(head, (
        [
            f"{megabytes} MB", case[-1], f"{percent} %", str(len(r.figures(case, f"{name} pause"))),
            r.scaled(case, f"{name} pause", 1e3),
            cells.scaled(r.percentile(case, f"{name} pause", 99), 1e3),
            r.seconds(case, f"{name} stored"), r.scaled(case, f"{name} bytes", 1e-6),
            r.seconds(case, f"{name} ingest"),
        ]
        for case in ("pause-1", "pause-2") for megabytes in r.sizes.states
        for percent in r.sizes.shares
        if r.figures(case, f"{(name := f'{megabytes} MB {percent} %')} pause")
    ), 3)  # fmt: skip


def _restored(r: Results) -> Table | None:
    return filled(["from", "to", "first answer, s", "of it resume", "MB of the snapshot"], (
        [
            str(before), str(after), r.spread("restore", f"{before} to {after}"),
            r.seconds("restore", f"{before} to {after} resume"),
            r.scaled("restore", f"bytes {before}", 1e-6),
        ]
        for before in BEFORE for after in AFTER if r.figures("restore", f"{before} to {after}")
    ), 2)  # fmt: skip


def _lost(r: Results) -> Table | None:
    return filled(["", "seconds"], [
        ["from the kill to the next answer", r.spread("loss", "answered")],
        ["the longest batch with its query", r.spread("loss", "longest")],
    ])  # fmt: skip


def _day(r: Results) -> Table | None:
    return filled(["of the day", "MB on disk", "segments", "versions"], (
        [
            f"{moment} %", r.scaled("day", f"bytes {moment}", 1e-6),
            r.number("day", f"segments {moment}"), r.number("day", f"versions {moment}"),
        ]
        for moment in MOMENTS
    ), title=f"{r.sizes.snapshots:,} snapshots")  # fmt: skip


SUITE = CaseSuite(
    name="snapshots",
    title="Suite snapshots: what snapshots cost, and what they buy",
    about="Main loops that take snapshots while they go on, or stop for each, beside one that "
    "takes none; and how long it takes until they answer again after a loss.",
    sizes=Sizes, cases=CASES, sections=_sections, notes=_notes, targets=tuple(_targets()),
    stated=("scale", "batch", "restored", "snapshots"),
    groups={"intervals": ("intervals-2", "intervals-4"), "pause": ("pause-1", "pause-2")},
    default=tuple(case for case in CASES if case != "intervals-inprocess"),
    quick="--parts intervals-inprocess,pause-2,loss,day --scale 12 --batch 2000 --intervals 1 "
    "--turn 2 --turns 1 --states 2 --pauses 10 --losses 1 --snapshots 1000",  # about a minute
)  # fmt: skip
