"""Suite ``keyed``: stateful classes, beside other systems that keep state by key."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from benchmarks import cells
from benchmarks.answers import Wrong
from benchmarks.document import Table
from benchmarks.options import names, option
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled, grouped
from benchmarks.targets import Target, median, ratio
from benchmarks.timing import seconds, timed
from benchmarks.turns import KINDS, NEVER, snapshot_options, there_and_back
from tests.support.servers import NotInstalled, PostgresServer, RedisServer
from vertexsdk import (
    Map,
    Matrix,
    Partitioned,
    PerPartition,
    SparseVector,
    Stateful,
    StatefulLoop,
    gather_all,
    on_all,
    session,
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    keys: int = option(1_000_000, "different keys")
    calls: int = option(1 << 20, "in bulk, of each kind and turn")
    turns: int = option(3, "of each kind")
    single: int = option(500, "calls one by one")
    states: tuple[int, ...] = option((100, 1000), "MB of state: 100,1000")
    processors: tuple[int, ...] = option((1, 2, 4), "with a state each: 1,2,4")
    each: int = option(25, "MB of state of each of these")
    kinds: tuple[str, ...] = option(KINDS, "of snapshots", names(KINDS))
    intervals: tuple[float, ...] = option(
        (2.0, 5.0, 10.0), "seconds between snapshots, smallest state: 2,5,10"
    )
    chain_intervals: tuple[float, ...] = option(
        (0.5, 1.0, 3.0, 10.0), "the same, calls that are shuffled three times"
    )
    turn: float = option(3.0, "seconds of a turn, at least")
    rounds: int = option(3, "turns at the interval of the target")
    events: int = option(1_000_000, "rows whose keys are counted")
    counted: int = option(10_000, "different keys of these")
    windows: tuple[int, ...] = option((10, 25, 50, 100), "milliseconds: 10,25,50,100")
    seconds: float = option(3.0, "of windows of one length")
    restored: int = option(1000, "MB of state that are restored")
    repeats: int = option(2, "of restoring and counting")
    ratings: int = option(20_000, "there before requests are measured")
    requests: int = option(600, "of each ratio of reads and writes")
    cores: int = 2


class KeyValue(Stateful):
    """The class of the SDG paper's figures 6, 7 and 11."""

    values = Partitioned(Map(int, float), key="key")

    def put(self, key: int, value: float) -> None:
        """Set the value of a key."""
        self.values[key] = value

    def get(self, key: int) -> float:
        """Return the value of a key."""
        return self.values.get(key, 0.0)


class Names(Stateful):
    """The same, with strings as keys."""

    values = Partitioned(Map(str, float), key="key")

    def put(self, key: str, value: float) -> None:
        """Set the value of a key."""
        self.values[key] = value

    def get(self, key: str) -> float:
        """Return the value of a key."""
        return self.values.get(key, 0.0)


class KeyCount(Stateful):
    """How often there was each key."""

    counts = Partitioned(Map(int, int), key="key")

    def add(self, key: int) -> None:
        """Count a key."""
        self.counts[key] += 1

    def count(self, key: int) -> int:
        """Return the count of a key."""
        return self.counts[key]


class WordCount(Stateful):
    """The class of the SDG paper's figure 8."""

    counts = Partitioned(Map(str, int), key="word")

    def add(self, line: str) -> None:
        """Count the words of a line."""
        for word in line.split():
            self.counts[word] += 1

    def count(self, word: str) -> int:
        """Return the count of a word."""
        return self.counts[word]


class Chain(Stateful):
    """Three state elements by different keys: each call is shuffled three times."""

    first = Partitioned(Map(int, int), key="key")
    second = Partitioned(Map(int, int), key="key")
    third = Partitioned(Map(int, int), key="key")

    def add(self, key: int) -> None:
        """Count a key, and two others that follow from it."""
        self.first[key] += 1
        other = (key * 7919 + 13) % 999983
        self.second[other] += 1
        last = (other * 104729 + 7) % 999979
        self.third[last] += 1


class Recommender(Stateful):
    """Collaborative filtering, the class of the SDG paper's figure 5."""

    ratings = Partitioned(Matrix, key="user")
    together = PerPartition(Matrix)

    def add_rating(self, user: int, item: int, rating: float) -> None:
        """Set a rating, and count the item together with the others of its user."""
        self.ratings[user, item] = rating
        for other, value in self.ratings.row(user):
            if value > 0:
                self.together[item, other] += 1
                self.together[other, item] += 1

    def recommend(self, user: int) -> SparseVector:
        """Return a score for each item."""
        row = self.ratings.row(user)
        scores = on_all(self.together).multiply(row)
        return self.merge(gather_all(scores))

    def merge(self, scores: list[SparseVector]) -> SparseVector:
        """Return the sum of the scores of all partitions."""
        return sum(scores, SparseVector())


def in_turns(
    process: CaseProcess,
    sizes: Sizes,
    name: str,
    every: float,
    rounds: int,
    make: Callable[[str], tuple[StatefulLoop, Callable[[], int], Callable[[], None]]],
) -> None:
    """Note calls per second with each kind of snapshot, and the longest time of one `map`.

    A snapshot is due when a turn begins, for it is that long since the one before, and the turn
    lasts until the next one is.

    Args:
        name: of the figures.
        every: seconds between snapshots.
        rounds: turns of each kind.
        make: for a kind, its loop, what makes some calls and returns how many, and the check of
            all that they did.
    """
    made = {kind: make(kind) for kind in sizes.kinds}
    for flow, step, _ in made.values():
        step()
        flow.snapshot()  # of all rows; those that follow have the rows that changed
    for number in range(rounds):
        for kind in there_and_back(sizes.kinds, number):
            flow, step, _ = made[kind]
            rate, longest, calls = _turn(step, max(sizes.turn, every))
            process.note(f"{name} {kind} {every:g}", rate)
            process.note(f"{name} {kind} {every:g} longest", longest)
            if kind != "none" and flow.progress()["calls_since_snapshot"] >= calls:
                raise RuntimeError(f"{name} {kind} {every:g}: there was no snapshot in a turn")
    for flow, _, check in made.values():
        check()
        flow.close()


def _turn(step: Callable[[], int], seconds: float) -> tuple[float, float, int]:
    """Calls per second, the longest time of a step, and the number of calls."""
    calls, longest = 0, 0.0
    began = last = time.perf_counter()
    while last - began < seconds:
        calls += step()
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return calls / (last - began), longest, calls


_FEWER = 8  # calls of a turn with a server, which takes 0.1 s for what takes a dict 0.01


_PIPELINE = 1000  # commands that the client sends at once


_GIVEN: dict[str, Callable[[Any], Any]] = {
    "arrays": lambda values: values,
    "lists": lambda values: values.tolist(),
    "strings": lambda values: values.astype(str) if values.dtype.kind == "i" else values,
}


def _turns(
    process: CaseProcess, sizes: Sizes, put: Callable[[Any, Any], Any], get: Callable[[Any], Any],
    given: str = "arrays",
) -> None:  # fmt: skip
    """Put and get in turns; note calls per second, and compare what was put with what is got."""
    rng, form = np.random.default_rng(1), _GIVEN[given]
    keys = np.unique(rng.integers(0, 1 << 62, sizes.keys))
    put(form(keys), form(np.zeros(len(keys))))
    for turn in range(sizes.turns):
        chosen = keys[rng.integers(0, len(keys), sizes.calls)]
        values = chosen.astype(float) + turn
        wanted, new = form(chosen), form(values)
        process.note("put", sizes.calls / seconds(partial(put, wanted, new)))
        took, answers = timed(partial(get, wanted))
        process.note("get", sizes.calls / took)
        if not np.array_equal(np.asarray(answers, float), values):
            raise Wrong("values that were got are not those that were put")


def loop_calls(
    process: CaseProcess,
    sizes: Sizes,
    backend: str = "lmdb://{scratch}/state",
    partitions: int = 1,
    given: str = "arrays",
) -> None:
    """A stateful class in this process, its log in a store."""
    url = backend.format(scratch=process.scratch)
    cls: Any = Names if given == "strings" else KeyValue
    with StatefulLoop(cls, backend=url, partitions=partitions) as flow:
        _turns(process, sizes, flow.put.map, flow.get.map, given)
        for number in range(sizes.single if given == "arrays" else 0):
            for kind, arguments in (("put", (number, 1.0)), ("get", (number,))):
                process.timed(f"one {kind}", partial(getattr(flow, kind), *arguments))


def served(make: type[RedisServer | PostgresServer], process: CaseProcess, sizes: Sizes) -> None:
    """The same, its log in a server that writes to the disk before it answers."""
    with _started(make) as server:
        if server is not None:
            fewer = replace(sizes, calls=sizes.calls // _FEWER)
            loop_calls(process, fewer, server.url())


def dictionary(process: CaseProcess, sizes: Sizes) -> None:
    """A dict in a Python loop_calls: nothing is kept."""
    values: dict[int, float] = {}

    def put(keys: Any, new: Any) -> None:
        for key, value in zip(keys.tolist(), new.tolist(), strict=True):
            values[key] = value

    _turns(process, sizes, put, lambda keys: [values[key] for key in keys.tolist()])


def valkey(process: CaseProcess, sizes: Sizes) -> None:
    """Valkey by pipelines of its client, which writes to the disk every second."""
    with _started(RedisServer, "--appendfsync", "everysec") as server:
        if server is None:
            return
        import redis

        client = redis.Redis(port=server.port)

        def sent(command: str, *columns: Any) -> list[Any]:
            answers: list[Any] = []
            rows = list(zip(*(column.tolist() for column in columns), strict=True))
            for k in range(0, len(rows), _PIPELINE):
                pipeline = client.pipeline(transaction=False)
                for row in rows[k : k + _PIPELINE]:
                    getattr(pipeline, command)(*row)
                answers += pipeline.execute()
            return answers

        put = partial(sent, "set")

        def get(keys: Any) -> list[float]:
            return [float(answer) for answer in sent("get", keys)]

        _turns(process, replace(sizes, calls=sizes.calls // _FEWER), put, get)


def _started(make: Any, *settings: str) -> Any:
    """A server as a context manager; None in it where the server is not installed."""
    try:
        return make(*settings)
    except NotInstalled as missing:
        print(missing, file=sys.stderr)
        return nullcontext()


STATES_AIM = 10.0  # seconds between snapshots, of the target


KEYS_PER_MB = 40_000  # 25 bytes each: key, value, a mark, and the index


_SCATTER = 2654435761  # times the number of a key is the key


_SPARE_SLOTS = 2


class Writer:
    """Puts values of keys drawn at random; may be used by several loops.

    Args:
        megabytes: of state.
    """

    batch, batches = 1 << 18, 64  # so many keys at a time, again and again

    def __init__(self, megabytes: int) -> None:
        self.keys = np.arange(megabytes * KEYS_PER_MB) * _SCATTER
        rng = np.random.default_rng(1)
        size = min(self.batch, len(self.keys))
        self._places = [
            rng.integers(0, len(self.keys), size).astype(np.int32) for _ in range(self.batches)
        ]
        self._chosen = [self.keys[places] for places in self._places]

    def fill(self, flow: StatefulLoop) -> None:
        """Put 0 at every key."""
        flow.put.map(self.keys, np.zeros(len(self.keys)))

    def steps(self, flow: StatefulLoop) -> tuple[Callable[[], int], Callable[[], None]]:
        """Return what puts the next values of a loop, and what compares all that it has then.

        Raises:
            Wrong: by the second, values are not those that were put.
        """
        done = 0

        def step() -> int:
            nonlocal done
            keys = self._chosen[done % self.batches]
            done += 1
            flow.put.map(keys, np.full(len(keys), float(done)))
            return len(keys)

        def check() -> None:
            right = np.zeros(len(self.keys))
            for number in range(max(0, done - self.batches), done):
                right[self._places[number % self.batches]] = number + 1
            places = self._places[0]
            found = flow.get.map(self._chosen[0])
            if not np.array_equal(np.asarray(found, float), right[places]):
                raise Wrong("values that were got are not those that were put")

        return step, check


def states(process: CaseProcess, sizes: Sizes) -> None:
    """Put values in states of several sizes; the smallest with all intervals."""
    for megabytes in sizes.states:
        writer = Writer(megabytes)
        for every in sizes.intervals if megabytes == min(sizes.states) else (STATES_AIM,):

            def make(kind: str, megabytes: int = megabytes, every: float = every,
                     writer: Writer = writer) -> Any:  # fmt: skip
                url = f"lmdb://{process.scratch}/{megabytes}-{every:g}-{kind}"
                return _made(writer, url, snapshot_options(kind, every))

            rounds = sizes.rounds if every == STATES_AIM else 1
            in_turns(process, sizes, f"{megabytes} MB", every, rounds, make)


def processors(process: CaseProcess, sizes: Sizes) -> None:
    """The same state for each of 1, 2, 4 resident Spark processors."""
    most = max(sizes.processors)
    spark = session(f"local[{len(sizes.kinds) * (most + 1) + _SPARE_SLOTS}]")
    every = min(sizes.intervals)
    for count in sizes.processors:
        writer = Writer(count * sizes.each)

        def make(kind: str, count: int = count, writer: Writer = writer) -> Any:
            url = f"lmdb://{process.scratch}/{count}-{kind}"
            return _made(
                writer, url, {**snapshot_options(kind, every), "partitions": count, "spark": spark}
            )

        in_turns(process, sizes, f"{count} × {sizes.each} MB", every, 2, make)


def _made(writer: Writer, url: str, told: dict[str, Any]) -> Any:
    flow = StatefulLoop(KeyValue, backend=url, **{"partitions": 1, **told})
    writer.fill(flow)
    return flow, *writer.steps(flow)


CHAIN_AIM = 3.0  # seconds between snapshots, of the target


_PARTITIONS = 2


_BATCH, _BATCHES = 1 << 16, 16


_KEYS = 1_000_000


def chain(spark: bool, process: CaseProcess, sizes: Sizes) -> None:
    """Note calls per second on two partitions, on resident Spark processors or in this process."""
    slots = len(sizes.kinds) * (_PARTITIONS + 1) + _SPARE_SLOTS
    opened = session(f"local[{slots}]") if spark else None
    rng = np.random.default_rng(1)
    batches = [rng.integers(0, _KEYS, min(_BATCH, sizes.calls)) for _ in range(_BATCHES)]
    for every in sizes.chain_intervals:

        def make(kind: str, every: float = every) -> Any:
            flow = StatefulLoop(
                Chain, backend=f"lmdb://{process.scratch}/{every:g}-{kind}", spark=opened,
                partitions=_PARTITIONS, **snapshot_options(kind, every),
            )  # fmt: skip
            done = 0

            def step() -> int:
                nonlocal done
                keys = batches[done % _BATCHES]
                done += 1
                flow.add.map(keys)
                return len(keys)

            return flow, step, lambda: _check_chain(flow, batches, done)

        in_turns(process, sizes, "chain", every, sizes.rounds if every == CHAIN_AIM else 1, make)


def _check_chain(flow: StatefulLoop, batches: list[Any], done: int) -> None:
    """Compare counts of the keys of one batch, and of all that follow from all keys.

    Raises:
        Wrong: they differ.
    """
    counts = np.zeros(_KEYS, np.int64)
    for number, keys in enumerate(batches):
        times = done // _BATCHES + (number < done % _BATCHES)
        counts += times * np.bincount(keys, minlength=_KEYS)
    first = np.arange(_KEYS)
    second = (first * 7919 + 13) % 999983
    third = (second * 104729 + 7) % 999979
    for element, keys in (("first", first), ("second", second), ("third", third)):
        right = np.bincount(keys, counts, _KEYS).astype(np.int64)
        wanted = np.unique(keys[batches[0][:1000]])
        rows = flow.lookup(wanted, element)
        if {k: row["value"] for k, row in rows.items()} != dict(
            zip(wanted.tolist(), right[wanted].tolist(), strict=True)
        ):
            raise Wrong(f"counts of {element} differ")


_STATE = "spark.sql.streaming.stateStore"


def streaming_session(sizes: Sizes) -> Any:
    """Return a session with a slot and a shuffle partition for each core."""
    return session(
        f"local[{sizes.cores}]",
        **{
            f"{_STATE}.providerClass":
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
            "spark.sql.shuffle.partitions": str(sizes.cores),
            "spark.sql.adaptive.enabled": "false",
        },
    )  # fmt: skip


_FILES = 8


_TINY = 1_000, 10  # rows and keys of the stream that comes first, untimed


def _write_stream(folder: Path, rows: int, keys: int) -> Any:
    """Write a stream as files; return the count of each key."""
    folder.mkdir()
    drawn = np.random.default_rng(1).integers(0, keys, rows)
    for number, part in enumerate(np.array_split(drawn, _FILES)):
        pq.write_table(pa.table({"key": part}), folder / f"{number}.parquet")
    return np.bincount(drawn, minlength=keys)


def counted(process: CaseProcess, sizes: Sizes) -> None:
    """By a stateful class in this process."""
    size = sizes.events, sizes.counted
    streams = {"tiny": _TINY, **{f"stream-{k}": size for k in range(sizes.repeats)}}
    for name, (rows, keys) in streams.items():
        folder = process.scratch / name
        right = _write_stream(folder, rows, keys)
        with StatefulLoop(KeyCount, backend=f"lmdb://{process.scratch}/state", loop=name) as flow:
            began = time.perf_counter()
            flow.add.start(f"{folder}/*.parquet").awaitTermination()
            took = time.perf_counter() - began
            if flow.count.map(np.arange(keys)) != right.tolist():
                raise Wrong("counts of keys differ")
        if name != "tiny":
            process.note("events", rows / took)


def counted_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """By transformWithStateInPandas, its state in RocksDB."""
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "count long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            new = sum(map(len, rows))
            self.count.update(((self.count.get()[0] if self.count.exists() else 0) + new,))
            return iter(())

        def close(self) -> None:
            pass

    spark = streaming_session(sizes)
    for name, (rows, keys) in {"tiny": _TINY, "all": (sizes.events, sizes.counted)}.items():
        folder, checkpoint = process.scratch / name, str(process.scratch / f"{name}-checkpoint")
        right = _write_stream(folder, rows, keys)
        began = time.perf_counter()
        (
            spark.readStream.schema("key long").parquet(str(folder)).groupBy("key")
            .transformWithStateInPandas(Counter(), "key long", "Update", "None")
            .writeStream.format("noop").outputMode("update").trigger(availableNow=True)
            .option("checkpointLocation", checkpoint).start().awaitTermination()
        )  # fmt: skip
        took = time.perf_counter() - began
        state = spark.read.format("statestore").option("path", checkpoint)
        state = state.option("stateVarName", "count").load().select("key.key", "value.count")
        found = dict(map(tuple, state.collect()))
        if found != {key: count for key, count in enumerate(right.tolist()) if count}:
            raise Wrong("counts of keys differ")
        if name != "tiny":
            process.note("events", rows / took)


WORDS_OF_A_LINE = 10


_FULL = 0.8  # of a window, which one that is tried must not take longer than


_TRIES = 5  # windows of each size that is tried


_BACKOFF = 0.75


_LATE = 0.05  # of the windows may end after the next one


_MOST = 1 << 16  # lines of a window


class Text:
    """Lines, one after the other, again and again."""

    vocabulary = np.array([f"word{number}" for number in range(10_000)])

    def __init__(self) -> None:
        ranks = np.random.default_rng(1).zipf(1.2, (_MOST, WORDS_OF_A_LINE)) - 1
        self._words = ranks % len(self.vocabulary)
        self._lines = np.array([" ".join(row) for row in self.vocabulary[self._words]], object)
        self._at = 0
        self.counts = np.zeros(len(self.vocabulary), np.int64)

    def take(self, count: int) -> tuple[list[str], Any]:
        """Return the next lines, and the words in them, each once."""
        places = np.arange(self._at, self._at + count) % _MOST
        self._at += count
        words, times = np.unique(self._words[places], return_counts=True)
        self.counts[words] += times
        return self._lines[places].tolist(), self.vocabulary[words]

    def expected(self) -> dict[str, int]:
        """The count of each word that was taken."""
        there = np.flatnonzero(self.counts)
        return dict(zip(self.vocabulary[there].tolist(), self.counts[there].tolist(), strict=True))


def sustained(
    process: CaseProcess, milliseconds: int, seconds: float
) -> Generator[int, float, None]:
    """Yield how many lines the next window has, and receive the seconds until they were counted.

    More and more lines are tried, until they take most of a window. Then windows of so many lines
    come at their times, for some seconds; where too many of them end late, the same with fewer
    lines. Notes words per second: 0 where no number of lines is kept up with.
    """
    window, lines = milliseconds / 1000, 1
    for factor in (2.0, 1.2):
        while lines < _MOST:
            more, took = max(lines + 1, int(lines * factor)), []
            for _ in range(_TRIES):
                took.append((yield more))
            if statistics.median(took) > _FULL * window:
                break
            lines = more
    while lines:
        count, late = max(1, round(seconds / window)), 0
        began = time.perf_counter()
        for number in range(1, count + 1):
            time.sleep(max(0.0, began + number * window - time.perf_counter()))
            yield lines
            late += time.perf_counter() > began + (number + 1) * window
        if late <= _LATE * count:
            break
        lines = int(lines * _BACKOFF)
    process.note(f"{milliseconds} ms", lines * WORDS_OF_A_LINE / window)


LINES = (1, 10_000, 100_000)  # of a micro-batch


_ROOT = Path(__file__).parent.parent.parent


_BYTEWAX = ".venv-bytewax/lib/python*/site-packages"  # made by ./dev bench


_WARM = 4  # micro-batches


def words(process: CaseProcess, sizes: Sizes) -> None:
    """By a stateful class in this process: one `add.map` and one `count.map` for each window."""
    text = Text()
    with StatefulLoop(WordCount, backend=f"lmdb://{process.scratch}/state") as flow:
        given, there = text.take(100)
        flow.add.map(given)
        flow.count.map(there)
        for window in sizes.windows:
            search = sustained(process, window, sizes.seconds)
            lines = next(search, None)
            while lines is not None:
                given, there = text.take(lines)
                began = time.perf_counter()
                flow.add.map(given)
                flow.count.map(there)
                lines = _next(search, time.perf_counter() - began)
        expected = text.expected()
        if flow.count.map(list(expected)) != list(expected.values()):
            raise Wrong("counts of words differ")


def _next(search: Any, took: float) -> int | None:
    try:
        return int(search.send(took))
    except StopIteration:
        return None


def words_by_bytewax(process: CaseProcess, sizes: Sizes) -> None:
    """By a dataflow of Bytewax with one worker, which keeps nothing; counts go to its sink."""
    named = os.environ.get("VERTEXSDK_BYTEWAX")  # a folder
    sys.path += [named] if named else map(str, _ROOT.glob(_BYTEWAX))
    try:
        import bytewax.operators as op
    except ImportError:
        process.note("not installed", 1)
        return
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import DynamicSource, StatelessSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import run_main

    text, counts = Text(), dict[str, int]()
    searches = [sustained(process, window, sizes.seconds) for window in sizes.windows]
    missing = 0  # words of this window that are not counted yet

    class Lines(StatelessSourcePartition):  # type: ignore[misc]
        def __init__(self) -> None:
            self.began: float | None = None

        def next_batch(self) -> Iterable[str]:
            nonlocal missing
            if missing:
                return []
            took = None if self.began is None else time.perf_counter() - self.began
            lines = next(searches[0], None) if took is None else _next(searches[0], took)
            while lines is None:
                searches.pop(0)
                if not searches:
                    raise StopIteration
                lines = next(searches[0], None)
            given, _ = text.take(lines)
            missing, self.began = lines * WORDS_OF_A_LINE, time.perf_counter()
            return given

    class Source(DynamicSource):  # type: ignore[misc]
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Lines:
            return Lines()

    class Count(op.StatefulBatchLogic):  # type: ignore[misc]
        def __init__(self, count: int | None) -> None:
            self.count = count or 0

        def on_batch(self, values: list[int]) -> tuple[list[tuple[int, int]], bool]:
            self.count += len(values)
            return [(len(values), self.count)], False

        def snapshot(self) -> int:
            return self.count

    class Counts(StatelessSinkPartition):  # type: ignore[misc]
        def write_batch(self, items: list[tuple[str, tuple[int, int]]]) -> None:
            nonlocal missing
            for word, (new, count) in items:
                counts[word] = count
                missing -= new

    class Sink(DynamicSink):  # type: ignore[misc]
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Counts:
            return Counts()

    flow = Dataflow("words")
    lines = op.input("lines", flow, Source())
    keyed = op.flat_map("words", lines, lambda line: [(word, 1) for word in line.split()])
    op.output("counts", op.stateful_batch("count", keyed, Count), Sink())
    run_main(flow)
    if counts != text.expected():
        raise Wrong("counts of words differ")


def words_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """By Structured Streaming, one micro-batch after the other: how long one with so many lines is.

    Lines are made within the JVM; what has changed goes to a table in memory.
    """
    from pyspark.sql import functions as f

    spark = streaming_session(sizes)
    texts = Text()
    given = [texts.take(1)[0][0] for _ in range(1000)]
    table = f.array(*map(f.lit, given))
    for lines in LINES:
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", lines).load()
        line = f.element_at(table, (f.col("value") % len(given) + 1).cast("int"))
        counts = stream.select(f.explode(f.split(line, " ")).alias("word")).groupBy("word").count()
        query = (
            counts.writeStream.format("memory").queryName(f"words{lines}").outputMode("update")
            .option("checkpointLocation", str(process.scratch / f"checkpoint-{lines}")).start()
        )  # fmt: skip
        while query.isActive and len(query.recentProgress) < _WARM:
            time.sleep(0.1)
        time.sleep(sizes.seconds)
        query.stop()
        done = [p for p in query.recentProgress if p["numInputRows"]]
        took = [p["durationMs"]["triggerExecution"] / 1000 for p in done[_WARM - 1 :]]
        process.note(f"micro-batch {lines}", statistics.median(took))
        _check_words(spark, f"words{lines}", given, sum(p["numInputRows"] for p in done))


def _check_words(spark: Any, table: str, given: list[str], least: int) -> None:
    """Compare with the counts of the lines that there were, which are in order.

    Raises:
        Wrong: they differ, or there were fewer lines than are known of.
    """
    found = dict(map(tuple, spark.table(table).groupBy("word").max("count").collect()))
    lines = sum(found.values()) // WORDS_OF_A_LINE
    right: dict[str, int] = defaultdict(int)
    for number, line in enumerate(given):
        times = lines // len(given) + (number < lines % len(given))
        for word in line.split() if times else ():
            right[word] += times
    if lines < least or found != right:
        raise Wrong("counts of words differ")


RATIOS = ((1, 5), (1, 1), (5, 1))  # reads to writes


_USERS, _ITEMS = 943, 1682  # of MovieLens 100K, which has 106 ratings of a user


_ROUNDS = 3  # in which the requests of a ratio come: first writes, then reads


class _Requests:
    """Ratings in an order drawn at random, each pair of user and item once, and who asks."""

    def __init__(self, sizes: Sizes) -> None:
        rng = np.random.default_rng(1)
        needed = sizes.ratings + len(RATIOS) * sizes.requests
        popular = rng.zipf(1.3, 20 * needed) % _ITEMS
        active = (rng.pareto(2.0, 20 * needed) * 200).astype(int) % _USERS
        _, first = np.unique(active * _ITEMS + popular, return_index=True)
        first = np.sort(first)[:needed]
        if len(first) < needed:
            raise ValueError("more ratings than there are pairs of user and item")
        self.user, self.item = active[first], popular[first]
        self.rating = rng.integers(1, 11, needed) / 2
        self.rounds: list[tuple[str, slice, Any]] = []
        at = sizes.ratings
        for reads, writes in RATIOS:
            for _ in range(_ROUNDS):
                asked = sizes.requests * reads // (reads + writes) // _ROUNDS
                end = at + sizes.requests * writes // (reads + writes) // _ROUNDS
                who = rng.choice(self.user[:at], max(1, asked))
                self.rounds.append((f"{reads}:{writes}", slice(at, end), who))
                at = end

    def columns(self, which: slice) -> tuple[Any, Any, Any]:
        return self.user[which], self.item[which], self.rating[which]

    def check(self, count: int, user: int, found: dict[int, float]) -> None:
        """Compare scores after so many ratings.

        Raises:
            Wrong: they differ.
        """
        user_of, item_of, rating = self.columns(slice(0, count))
        shape = _USERS, _ITEMS
        rated = sparse.csr_array((np.ones(count), (user_of, item_of)), shape)
        together = (rated.T @ rated).tocsr()
        together.setdiag(2 * together.diagonal())
        given = sparse.csr_array((rating, (user_of, item_of)), shape)
        right = together @ given[[user]].toarray().ravel()
        scores = np.zeros(_ITEMS)
        scores[np.array(list(found), np.int64)] = list(found.values())
        if not np.allclose(scores, right, rtol=1e-9):
            raise Wrong(f"scores of user {user} differ")


def ratings(process: CaseProcess, sizes: Sizes) -> None:
    """By a stateful class in this process."""
    given = _Requests(sizes)
    with StatefulLoop(Recommender, backend=f"lmdb://{process.scratch}/state") as flow:
        flow.add_rating.map(*given.columns(slice(0, sizes.ratings)))
        for name, new, who in given.rounds:
            began = time.perf_counter()
            flow.add_rating.map(*given.columns(new))
            answers = flow.recommend.map(who)
            took = time.perf_counter() - began
            process.note(name, (new.stop - new.start + len(who)) / took)
            given.check(new.stop, int(who[-1]), dict(answers[-1]))


def ratings_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """By a Structured Streaming job: one micro-batch for each round.

    `foreachBatch` joins its ratings with those of their users, adds to the counts of pairs of
    items, and joins these with the ratings of who asks. Each writes both tables anew, under its
    number, so that a micro-batch that is repeated has the same result.
    """
    from pyspark.sql import functions as f

    given, place = _Requests(sizes), process.scratch
    spark = streaming_session(sizes)
    shape = "user long, item long, rating double"

    def table(name: str, batch: int) -> str:
        return str(place / f"{name}-{batch}")

    spark.createDataFrame([], shape).write.parquet(table("ratings", -1))
    spark.createDataFrame([], "item long, other long, count double").write.parquet(
        table("together", -1)
    )

    def job(frame: Any, batch: int) -> None:
        frame = frame.persist()
        old = spark.read.parquet(table("ratings", batch - 1))
        new = frame.where("rating is not null").persist()
        old.union(new).write.mode("overwrite").parquet(table("ratings", batch))
        every = spark.read.parquet(table("ratings", batch))
        pairs = _pairs(f, new, old).union(_pairs(f, old, new)).union(_pairs(f, new, new))
        together = spark.read.parquet(table("together", batch - 1)).union(pairs)
        together = together.groupBy("item", "other").agg(f.sum("count").alias("count"))
        together.write.mode("overwrite").parquet(table("together", batch))
        together = spark.read.parquet(table("together", batch))
        asked = frame.where("rating is null").select(f.col("item").alias("request"), "user")
        scores = (
            asked.join(every, "user").join(together, "item")
            .groupBy("request", "user", "other").agg(f.sum(f.expr("rating * count")).alias("score"))
        )  # fmt: skip
        scores.write.mode("overwrite").parquet(table("scores", batch))
        new.unpersist()
        frame.unpersist()

    source = place / "requests"
    source.mkdir()
    _write_requests(source / "000.parquet", *given.columns(slice(0, sizes.ratings)))
    query = (
        spark.readStream.schema(shape).option("maxFilesPerTrigger", 1).parquet(str(source))
        .writeStream.foreachBatch(job).option("checkpointLocation", str(place / "checkpoint"))
        .start()
    )  # fmt: skip
    query.processAllAvailable()
    for number, (name, new, who) in enumerate(given.rounds, 1):
        began = time.perf_counter()
        _write_requests(source / f"{number:03}.parquet", *given.columns(new), who)
        query.processAllAvailable()
        took = time.perf_counter() - began
        process.note(name, (new.stop - new.start + len(who)) / took)
        last = spark.read.parquet(table("scores", number)).where(f"request = {len(who) - 1}")
        found = {row.other: row.score for row in last.collect()}
        given.check(new.stop, int(who[-1]), found)
    query.stop()


def _pairs(f: Any, left: Any, right: Any) -> Any:
    """Items of both that one user has rated, each pair once in each direction, with a count of 1;
    an item with itself counts twice, as the class has it.
    """
    other = right.select("user", f.col("item").alias("other"))
    count = f.when(f.col("item") == f.col("other"), 2.0).otherwise(1.0).alias("count")
    return left.join(other, "user").select("item", "other", count)


def _write_requests(path: Path, user: Any, item: Any, rating: Any, who: Any = ()) -> None:
    """Ratings, then requests, which have no rating and their number for an item."""
    whole = pa.table({
        "user": np.concatenate([user, np.asarray(who, np.int64)]),
        "item": np.concatenate([item, np.arange(len(who))]),
        "rating": pa.array([*rating.tolist(), *[None] * len(who)], pa.float64()),
    })  # fmt: skip
    partial = path.with_name(f".{path.name}")
    pq.write_table(whole, partial)
    partial.rename(path)


PAIRS = ((1, 1), (1, 2), (2, 2))  # partitions before and after


_SLOTS = 4  # of the session


_ASKED = 1000


def restore(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds from `StatefulLoop.resume` on resident Spark processors to the first answers."""
    spark = session(f"local[{_SLOTS}]")
    for megabytes in (1, sizes.restored):  # the first, untimed, starts the processors
        keys = Writer(megabytes).keys
        asked = keys[:: max(1, len(keys) // _ASKED)]
        for before in sorted({before for before, _ in PAIRS}):
            with StatefulLoop(
                KeyValue, backend=_url(process, megabytes, before), partitions=before,
                snapshot_every=NEVER,
            ) as flow:  # fmt: skip
                flow.put.map(keys, keys.astype(float))
        for _ in range(sizes.repeats if megabytes == sizes.restored else 1):
            for before, after in PAIRS:
                began = time.perf_counter()
                with StatefulLoop.resume(
                    KeyValue, backend=_url(process, megabytes, before), partitions=after,
                    spark=spark, snapshot_every=NEVER,
                ) as flow:  # fmt: skip
                    found = flow.get.map(asked)
                    took = time.perf_counter() - began
                if not np.array_equal(np.asarray(found, float), asked.astype(float)):
                    raise Wrong(f"{before} to {after}: values are not those that were put")
                if megabytes == sizes.restored:
                    process.note(f"{before} to {after}", took)


def _url(process: CaseProcess, megabytes: int, before: int) -> str:
    return f"lmdb://{process.scratch}/{megabytes}-{before}"


CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "dict": dictionary,
    "valkey": valkey,
    "memory-1": partial(loop_calls, backend="memory://bench"),
    "lmdb-1": loop_calls,
    "lmdb-2": partial(loop_calls, partitions=2),
    "strings-1": partial(loop_calls, given="strings"),
    "lists-1": partial(loop_calls, given="lists"),
    "redis-1": partial(served, RedisServer),
    "postgres-1": partial(served, PostgresServer),
    "states": states,
    "processors": processors,
    "count-lmdb": counted,
    "count-spark": counted_by_spark,
    "words-lmdb": words,
    "words-bytewax": words_by_bytewax,
    "words-spark": words_by_spark,
    "restore": restore,
    "ratings-lmdb": ratings,
    "ratings-spark": ratings_by_spark,
    "chain": partial(chain, True),
    "chain-inprocess": partial(chain, False),
}


Results = SuiteResults[Sizes]
_SHARES = [f"{reads}:{writes}" for reads, writes in RATIOS]


def _windows(r: Results) -> float | None:
    rates = [r.median("words-lmdb", f"{window} ms") for window in r.sizes.windows]
    return None if None in rates else float(sum(bool(rate) for rate in rates))


def _targets() -> Iterator[Target[Results]]:
    for kind in ("put", "get"):
        yield Target(f"{kind} in bulk, LMDB", median("lmdb-1", kind, 1e-6), 1.0, "M/s", True)
    for kind in ("put", "get"):
        measure = ratio("lmdb-1", kind, "valkey")
        yield Target(f"{kind}, LMDB / Valkey", measure, 5.0, "×", True, "Valkey")
    for kind in ("put", "get"):
        yield Target(f"one {kind}, LMDB", median("lmdb-1", f"one {kind}", 1e3), 1.0, "ms")
    for megabytes in Sizes().states:
        name = f"{megabytes} MB {{}} {STATES_AIM:g}"
        measure = ratio("states", name.format("asynchronous"), other=name.format("none"))
        title = f"put, {megabytes:,} MB of state, asynchronous snapshots every {STATES_AIM:g} s"
        yield Target(title, measure, 0.95, "×", True, "no snapshots")
    measure = ratio("count-lmdb", "events", "count-spark")
    beside = "transformWithStateInPandas, RocksDB"
    yield Target("count of the keys of a stream", measure, 20.0, "×", True, beside)
    windows = Sizes().windows
    title = f"words in windows of {', '.join(map(str, windows))} ms: lengths kept up with"
    yield Target(title, _windows, len(windows), f"of {len(windows)}", True)
    title = f"{Sizes().restored:,} MB restored by 2 processors from 2"
    measure = ratio("restore", "1 to 1", other="2 to 2")
    yield Target(title, measure, 1.6, "×", True, "1 from 1")
    measure = ratio("chain", f"chain asynchronous {CHAIN_AIM:g}", other=f"chain none {CHAIN_AIM:g}")
    title = f"three shuffles, asynchronous snapshots every {CHAIN_AIM:g} s"
    yield Target(title, measure, 0.97, "×", True, "no snapshots")


def _shown(r: Results) -> Iterator[list[str]]:
    """Ratios that have no aim."""
    for window in r.sizes.windows:
        name = f"{window} ms"
        title = f"words/s in windows of {window} ms"
        ratio = r.ratio("words-lmdb", name, "words-bytewax")
        if r.figures("words-bytewax", "not installed"):
            yield [title, "Bytewax", "not installed", "–", "shown"]
        elif ratio is not None:
            yield [title, "Bytewax", cells.times(ratio), "–", "shown"]
    for reads, writes in RATIOS:
        ratio = r.ratio("ratings-lmdb", f"{reads}:{writes}", "ratings-spark")
        if ratio is not None:
            title = f"recommendations to ratings {reads}:{writes}"
            yield [title, "Structured Streaming", cells.times(ratio), "–", "shown"]


def _notes(r: Results) -> list[str]:
    s = r.sizes
    return [
        f"Put and get: {s.keys:,} keys of 62 bits, {s.calls:,} calls of each kind in a turn, an "
        f"eighth of them with a server; {s.turns} turns; medians. `map` gets NumPy arrays; its log "
        "is durable before a block of 65,536 calls runs.",
        f"Snapshots: {1_000_000 // KEYS_PER_MB} bytes of state for each key; loops with "
        "each kind take turns in one process, LMDB, and each turn has a snapshot for every "
        "interval. *Longest* is that of one `map` of 262,144 calls, or 65,536 with shuffles.",
        f"A stream: {s.events:,} rows in eight Parquet files, {s.counted:,} different keys; from "
        "its start until all is committed. Spark takes it in as one micro-batch "
        "(`availableNow`), whose state is in RocksDB, with a checkpoint.",
        f"Words: lines of {WORDS_OF_A_LINE} words, 10,000 different ones. A window's lines are "
        "handed over at its end and counted, and the counts of its words read; kept up with, if "
        "this is done before the next one's end for 95 % of them. The class has them in its log "
        "before that; Bytewax has one worker and keeps nothing. Structured Streaming has one "
        "micro-batch after the other, with a checkpoint; its lines are made within the JVM.",
        f"Restoring: {s.restored:,} MB, from `StatefulLoop.resume` on resident Spark processors to "
        "the first answers.",
        f"Recommendations: {s.ratings:,} ratings of 943 users and 1,682 items, as MovieLens 100K, "
        f"then {s.requests} requests of each ratio. The Structured Streaming job does the same by "
        "joins in `foreachBatch`, the requests of a round in one micro-batch.",
        "All answers, counts and scores equal those of NumPy or SciPy.",
    ]  # fmt: skip


_TITLES = {
    "dict": "a dict, in a Python loop",
    "valkey": "Valkey, pipelines of 1,000, appendfsync everysec",
    "memory-1": "stateful class, `memory://`, 1 partition",
    "lmdb-1": "stateful class, LMDB, 1 partition",
    "lmdb-2": "stateful class, LMDB, 2 partitions in one process",
    "strings-1": "stateful class, LMDB, strings as keys",
    "lists-1": "stateful class, LMDB, lists for arrays",
    "redis-1": "stateful class, Valkey, appendfsync always",
    "postgres-1": "stateful class, PostgreSQL",
    "count-lmdb": "stateful class",
    "count-spark": "transformWithStateInPandas",
    "words-lmdb": "stateful class",
    "words-bytewax": "Bytewax",
    "ratings-lmdb": "stateful class",
    "ratings-spark": "Structured Streaming",
}
_BULK = tuple(_TITLES)[:9]


def _sections(r: Results) -> list[tuple[str, Parts]]:
    sizes, smallest = r.sizes, min(r.sizes.states)
    by_size = [
        (f"{megabytes} MB", every) for megabytes in sizes.states
        for every in (sizes.intervals if megabytes == smallest else (STATES_AIM,))
    ]  # fmt: skip
    counts = [(f"{n} × {sizes.each} MB", min(sizes.intervals)) for n in sizes.processors]
    chains = [("chain", every) for every in sizes.chain_intervals]
    windows = [f"{window} ms" for window in sizes.windows]
    return [
        ("Put and get", [_bulk(r)]),
        ("Put, by state and snapshots", [_snapshots(r, "states", by_size)]),
        ("Put, the same state on each processor", [_snapshots(r, "processors", counts)]),
        ("Keys of a stream, counted", [_rates(r, "count", ["", "rows/s"], ["events"])]),
        ("Words in windows", [_rates(r, "words", ["words/s", *windows], windows)]),
        ("Micro-batches of lines", [_micro_batches(r)]),
        ("Restoring", [_restored(r)]),
        ("Recommendations and ratings", [
            _rates(r, "ratings", ["requests/s, reads to writes", *_SHARES], _SHARES)
        ]),
        ("Three shuffles, 2 processors", [_snapshots(r, "chain", chains)]),
        ("Three shuffles, 2 partitions", [_snapshots(r, "chain-inprocess", chains)]),
    ]  # fmt: skip


def _bulk(r: Results) -> Table | None:
    return filled(["", "put/s", "get/s", "one put", "one get"], (
        [
            _TITLES[case], r.number(case, "put"), r.number(case, "get"),
            r.middle(case, "one put"), r.middle(case, "one get"),
        ]
        for case in _BULK
    ))  # fmt: skip


def _snapshots(r: Results, case: str, measured: list[tuple[str, float]]) -> Table | None:
    return filled(["", "interval", "snapshots", "calls/s", "/ none", "longest"], (
        [
            "" if case.startswith("chain") else name, f"{every:g} s", kind, r.number(case, figure),
            r.times(case, figure, case, f"{name} none {every:g}"),
            r.middle(case, f"{figure} longest"),
        ]
        for name, every in measured for kind in r.sizes.kinds
        if (figure := f"{name} {kind} {every:g}")
    ), 3)  # fmt: skip


def _rates(r: Results, part: str, head: list[str], figures: Sequence[str]) -> Table | None:
    """Ours and others, a column for each figure."""
    return filled(head, (
        [title, *(_rate(r.median(case, figure)) for figure in figures)]
        for case, title in _TITLES.items() if case.startswith(part)
    ))  # fmt: skip


def _rate(rate: float | None) -> str:
    return "not kept up with" if rate == 0 else cells.number(rate)


def _micro_batches(r: Results) -> Table | None:
    """How long one of Structured Streaming is, and so which windows it could keep up with."""
    took = {lines: r.median("words-spark", f"micro-batch {lines}") for lines in LINES}
    return filled(["Structured Streaming", "takes", "words/s"], (
        [f"{lines:,} lines", f"{cells.seconds(s)} s", cells.number(lines * WORDS_OF_A_LINE / s)]
        for lines, s in took.items() if s
    ))  # fmt: skip


def _restored(r: Results) -> Table | None:
    return filled(["from", "by", "seconds"], (
        [str(m), str(n), r.spread("restore", f"{m} to {n}")] for m, n in PAIRS
    ), 2)  # fmt: skip


SUITE = CaseSuite(
    name="keyed",
    title="Suite keyed: stateful classes",
    about="Calls of stateful classes in bulk and one by one, with snapshots and without, beside "
    "other systems that keep state by key.",
    sizes=Sizes, cases=CASES, sections=_sections, notes=_notes, shown=_shown,
    targets=tuple(_targets()), stem=lambda s: f"keyed-{s.keys}", time_limit=600,
    stated=("keys", "calls", "events", "counted", "restored", "windows"),
    groups={"bulk": _BULK, **grouped(CASES, "count", "words", "ratings")},
    default=tuple(case for case in CASES if case != "chain-inprocess"),
    quick="--parts bulk,states,count,words,chain-inprocess --keys 50000 --calls 65536 --turns 2 "
    "--single 20 --states 1 --intervals 1 --chain-intervals 1 --turn 1 --rounds 1 --events 100000 "
    "--counted 2000 --windows 25 --seconds 1 --repeats 1",  # less than two minutes
)  # fmt: skip
