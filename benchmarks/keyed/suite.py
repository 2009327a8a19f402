"""Suite ``keyed``: stateful classes, beside other systems that keep state by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks import cells
from benchmarks.case_process import CaseProcess
from benchmarks.document import Table
from benchmarks.keyed import bulk, chain, counting, ratings, restoring, states, words
from benchmarks.keyed.ratings import RATIOS
from benchmarks.keyed.restoring import PAIRS
from benchmarks.keyed.sizes import Sizes
from benchmarks.keyed.windows import WORDS_OF_A_LINE
from benchmarks.keyed.words import LINES
from benchmarks.runner import SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled
from benchmarks.targets import Target, median, ratio
from tests.support.servers import PostgresServer, RedisServer

CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "dict": bulk.dictionary,
    "valkey": bulk.valkey,
    "memory-1": partial(bulk.loop, backend="memory://bench"),
    "lmdb-1": bulk.loop,
    "lmdb-2": partial(bulk.loop, partitions=2),
    "strings-1": partial(bulk.loop, given="strings"),
    "lists-1": partial(bulk.loop, given="lists"),
    "redis-1": partial(bulk.served, RedisServer),
    "postgres-1": partial(bulk.served, PostgresServer),
    "states": states.states,
    "processors": states.processors,
    "count-lmdb": counting.counted,
    "count-spark": counting.counted_by_spark,
    "words-lmdb": words.words,
    "words-bytewax": words.words_by_bytewax,
    "words-spark": words.words_by_spark,
    "restore": restoring.restore,
    "ratings-lmdb": ratings.ratings,
    "ratings-spark": ratings.ratings_by_spark,
    "chain": partial(chain.chain, True),
    "chain-inprocess": partial(chain.chain, False),
}


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def kept(self, case: str, name: str, kind: str, every: float) -> float | None:
        """The share of the throughput without snapshots."""
        return self.ratio(case, f"{name} {kind} {every:g}", case, f"{name} none {every:g}")


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
        name = f"{megabytes} MB {{}} {states.AIM:g}"
        measure = ratio("states", name.format("asynchronous"), other=name.format("none"))
        title = f"put, {megabytes:,} MB of state, asynchronous snapshots every {states.AIM:g} s"
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
    measure = ratio("chain", f"chain asynchronous {chain.AIM:g}", other=f"chain none {chain.AIM:g}")
    title = f"three shuffles, asynchronous snapshots every {chain.AIM:g} s"
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


_BULK = {
    "dict": "a dict, in a Python loop",
    "valkey": "Valkey, pipelines of 1,000, appendfsync everysec",
    "memory-1": "stateful class, `memory://`, 1 partition",
    "lmdb-1": "stateful class, LMDB, 1 partition",
    "lmdb-2": "stateful class, LMDB, 2 partitions in one process",
    "strings-1": "stateful class, LMDB, strings as keys",
    "lists-1": "stateful class, LMDB, lists for arrays",
    "redis-1": "stateful class, Valkey, appendfsync always",
    "postgres-1": "stateful class, PostgreSQL",
}


def _sections(r: Results) -> list[tuple[str, Parts]]:
    sizes, smallest = r.sizes, min(r.sizes.states)
    return [
        ("Put and get", [_bulk(r)]),
        ("Put, by state and snapshots", [_snapshots(r, "states", [
            (f"{megabytes} MB", every) for megabytes in sizes.states
            for every in (sizes.intervals if megabytes == smallest else (states.AIM,))
        ])]),
        ("Put, the same state on each processor", [_snapshots(r, "processors", [
            (f"{count} × {sizes.each} MB", min(sizes.intervals)) for count in sizes.processors
        ])]),
        ("Keys of a stream, counted", [_counted(r)]),
        ("Words in windows", [_words(r)]),
        ("Micro-batches of lines", [_micro_batches(r)]),
        ("Restoring", [_restored(r)]),
        ("Recommendations and ratings", [_ratings(r)]),
        *((f"Three shuffles, 2 {where}", [_snapshots(r, case, [
            ("chain", every) for every in sizes.chain_intervals
        ])]) for case, where in (("chain", "processors"), ("chain-inprocess", "partitions"))),
    ]  # fmt: skip


def _notes(r: Results) -> list[str]:
    s = r.sizes
    return [
        f"Put and get: {s.keys:,} keys of 62 bits, {s.calls:,} calls of each kind in a turn, an "
        f"eighth of them with a server; {s.turns} turns; medians. `map` gets NumPy arrays; its log "
        "is durable before a block of 65,536 calls runs.",
        f"Snapshots: {1_000_000 // states.KEYS_PER_MB} bytes of state for each key; loops with "
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


def _bulk(r: Results) -> Table | None:
    kinds = ("put", "get")
    head = ["", "put/s", "get/s", "one put", "one get"]
    return filled(head, (
        [
            title, *(cells.number(r.median(case, kind)) for kind in kinds),
            *(cells.middle(r.figures(case, f"one {kind}")) for kind in kinds),
        ]
        for case, title in _BULK.items()
    ))  # fmt: skip


def _snapshots(r: Results, case: str, measured: list[tuple[str, float]]) -> Table | None:
    head = ["", "interval", "snapshots", "calls/s", "/ none", "longest"]
    return filled(head, (
        [
            "" if case.startswith("chain") else name, f"{every:g} s", kind,
            cells.number(r.median(case, f"{name} {kind} {every:g}")),
            cells.times(r.kept(case, name, kind, every)),
            cells.middle(r.figures(case, f"{name} {kind} {every:g} longest")),
        ]
        for name, every in measured for kind in r.sizes.kinds
    ), 3)  # fmt: skip


def _counted(r: Results) -> Table | None:
    titles = {"count-lmdb": "stateful class", "count-spark": "transformWithStateInPandas"}
    head = ["", "rows/s"]
    return filled(head, (
        [title, cells.number(r.median(case, "events"))] for case, title in titles.items()
    ))  # fmt: skip


def _words(r: Results) -> Table | None:
    titles = {"words-lmdb": "stateful class", "words-bytewax": "Bytewax"}
    head = ["words/s", *(f"{window} ms" for window in r.sizes.windows)]
    return filled(head, (
        [title, *(_rate(r.median(case, f"{window} ms")) for window in r.sizes.windows)]
        for case, title in titles.items()
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
        [str(m), str(n), cells.spread(r.figures("restore", f"{m} to {n}"))] for m, n in PAIRS
    ), 2)  # fmt: skip


def _ratings(r: Results) -> Table | None:
    titles = {"ratings-lmdb": "stateful class", "ratings-spark": "Structured Streaming"}
    ratios = [f"{reads}:{writes}" for reads, writes in RATIOS]
    return filled(["requests/s, reads to writes", *ratios], (
        [title, *(cells.number(r.median(case, ratio)) for ratio in ratios)]
        for case, title in titles.items()
    ))  # fmt: skip


_GROUPS = {
    "bulk": tuple(_BULK),
    "count": ("count-lmdb", "count-spark"),
    "words": ("words-lmdb", "words-spark", "words-bytewax"),
    "ratings": ("ratings-lmdb", "ratings-spark"),
}

SUITE = CaseSuite(
    name="keyed",
    title="Suite keyed: stateful classes",
    about="Calls of stateful classes in bulk and one by one, with snapshots and without, beside "
    "other systems that keep state by key.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, shown=_shown,
    targets=tuple(_targets()),
    stated=("keys", "calls", "events", "counted", "restored", "windows"),
    stem=lambda s: f"keyed-{s.keys}",
    groups=_GROUPS,
    default=tuple(case for case in CASES if case != "chain-inprocess"),
    time_limit=600,
    quick=(
        "--parts", "bulk,states,count,words,chain-inprocess", "--keys", "50000",
        "--calls", "65536", "--turns", "2", "--single", "20", "--states", "1", "--intervals", "1",
        "--chain-intervals", "1", "--turn", "1", "--rounds", "1", "--events", "100000",
        "--counted", "2000", "--windows", "25", "--seconds", "1", "--repeats", "1",
    ),  # less than two minutes
)  # fmt: skip
