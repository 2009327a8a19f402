"""Suite ``state``: what versions cost, on every backend in one run.

Forks, commits of deltas and of whole bases, reads of single vertices by a cold process, reads
behind many deltas before and after compaction, and the space of many forks. Servers are started
for it on this machine with their data in the directory for temporary files, Redis with
``appendfsync always``; ``--backends NAME=URL`` takes others. Beside each measure stands its floor:
the same bytes by a plain write and fsync, by SET, or by INSERT, in turn with it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import graphs, machine
from benchmarks.document import Chart, Table, bars
from benchmarks.options import cache_of, limits_of, option, say
from benchmarks.runner import CaseProcess, SuiteResults, run_case
from benchmarks.state.floors import COLD, floor_of
from benchmarks.suite import CaseSuite
from benchmarks.timing import seconds, timed
from tests.support.servers import NotInstalled, PostgresServer, RedisServer
from vertexsdk import Graph, run, session
from vertexsdk.algorithms.pagerank import PageRank
from vertexsdk.state import Store, open_store

BUILT_IN = ("lmdb", "redis", "postgres", "memory")
Key = tuple[str, int]
ITERATIONS, _RUNS = 30, 4  # of PageRank

Cell = dict[str, Any]


AIMS: dict[
    str, tuple[str, bool, Any, Any]
] = {  # measure: (unit, lower is better, LMDB, the others)
    "fork": ("ms", True, 5.0, 10.0),
    "delta": ("ms", True, 3.0, 10.0),
    "amplification": ("×", True, 4.0, 4.0),
    "base": ("MB/s", False, 500.0, {"redis": 150.0, "postgres": 60.0}),
    "point": ("ms", True, 2.0, 5.0),
    "behind": ("×", True, 2.0, 2.0),
    "between": ("×", True, None, None),
    "forks": ("×", True, 2.2, 2.2),
    "prune": ("ms", True, None, None),
    "overhead": ("%", True, 10.0, 10.0),
    "fork floor": ("ms", True, None, None),
    "delta floor": ("ms", True, None, None),
    "base floor": ("MB/s", False, None, None),
    "point floor": ("ms", True, None, None),
}


ABOUT = {
    "fork": "fork of a loop of {n:,} vertices",
    "fork floor": "*floor: {n} bytes by plain write + fsync, SET, INSERT*",
    "delta": "commit of a delta of 1,000 vertices in {n:,}, put and commit",
    "delta floor": "*floor: the same bytes by plain write + fsync, SET, INSERT*",
    "amplification": "bytes that it writes, over those of the changed state",
    "base": "commit of a base of {n:,} vertices, id and one float64",
    "base floor": "*floor: the same bytes by plain write + fsync, SET, INSERT*",
    "point": "one vertex of {n:,}, read by a cold process: open and look up, imports excluded",
    "point floor": "*floor: open a file, or connect, and read 8 bytes, by a cold process*",
    "behind": "read with {deltas:,} deltas behind, after compaction, over an equal base",
    "between": "the same, {late} deltas after the last compaction",
    "forks": "space of 100 forks of one loop that change 1 % each, over that of the loop",
    "prune": "drop 64 versions of a loop, beside {n:,} answers that were forked from it",
    "overhead": "committing every iteration, PageRank on {n:,} edges, over committing once",
}


def cell(backend: str, measure: str, n: int, values: list[float]) -> Cell:
    """Values of one measure on one backend; n is its size. Tells the median on standard error."""
    unit, lower, lmdb, others = AIMS[measure]
    aim: Any = lmdb if backend == "lmdb" else others
    if isinstance(aim, dict):
        aim = aim.get(backend)
    if backend == "memory":
        aim = None
    median = statistics.median(values)
    reached = None if aim is None else bool(median <= aim if lower else median >= aim)
    cell = {"measure": measure, "n": n, "unit": unit, "values": values, "median": median}
    print(f"{backend}: {measure} {n:,}: {median:.3g} {unit}", file=sys.stderr, flush=True)
    return {**cell, "aim": aim, "lower": lower, "reached": reached}


_COLD = """
import importlib, sys, time
import vertexsdk.backends, vertexsdk.graph.topology.topology
from vertexsdk.state import open_store
for module in sys.argv[3].split(","):
    importlib.import_module(module)
began = time.perf_counter()
store = open_store(sys.argv[1], create=False)
found = store.lookup("base", [int(sys.argv[2])])
print(1e3 * (time.perf_counter() - began))
assert found
store.close()
"""


_COLD_FLOOR = """
import os, sys, time
{imports}
url = sys.argv[1]
began = time.perf_counter()
{work}
print(1e3 * (time.perf_counter() - began))
assert found
"""


_MODULES = {
    "lmdb": "vertexsdk.backends.lmdb",
    "memory": "vertexsdk.backends.memory",
    "redis": "vertexsdk.backends.redis,redis.client,secrets,encodings.idna",
    "postgres": "vertexsdk.backends.postgres",
}


def read_cold(name: str, store: Store, vertex: int) -> float:
    """Milliseconds in which a cold process opens the store and reads one vertex of "base"."""
    return _run_cold(_COLD, store, str(vertex), _MODULES.get(name, "redis"))


def read_floor(name: str, store: Store) -> float:
    """Milliseconds in which a cold process reads 8 bytes without the store."""
    imports = {"redis": "import redis.client", "postgres": "import psycopg"}.get(name, "")
    return _run_cold(
        _COLD_FLOOR.format(imports=imports, work=COLD.get(name, "found = True")), store
    )


def _run_cold(code: str, store: Store, *arguments: str) -> float:
    command = [sys.executable, "-c", code, store.backend.address.reveal(), *arguments]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


_HEAD = 100  # bytes that a fork writes, about


def _measure(name: str, url: str, directory: str, options: Sizes) -> Iterator[Cell]:
    random = np.random.default_rng(0)
    store = open_store(url)
    if name == "memory":
        directory = store.backend.path  # type: ignore[attr-defined]
    floor = floor_of(url, directory)
    n = options.base
    values = random.random(n)
    size = 16 * n
    ids = np.arange(n)
    taken, plain = [], []
    for _ in range(5):
        plain.append(floor.seconds([ids.data.cast("B"), values.data.cast("B")]))
        floor.clear()
        floor = floor_of(url, directory)
        taken.append(seconds(lambda: _commit(store, "base", 0, ids, values, parent=None)))
    yield cell(name, "base", n, [size / s / 1e6 for s in taken])
    yield cell(name, "base floor", n, [size / s / 1e6 for s in plain])
    some = random.integers(n, size=7).tolist()
    yield cell(name, "point", n, [read_cold(name, store, vertex) for vertex in some])
    yield cell(name, "point floor", n, [read_floor(name, store) for _ in range(7)])
    store.delete("base")
    for size in options.sizes:
        _commit(store, "main", 0, np.arange(size), random.random(size), parent=None)
        times, least = [], []
        for k in range(options.repeats):
            least.append(1e3 * floor.seconds([bytes(_HEAD)]))
            times.append(1e3 * seconds(lambda k=k: store.fork("main", f"fork-{k}")))  # type: ignore[misc]
        yield cell(name, "fork", size, times)
        for k in range(options.repeats):
            store.delete(f"fork-{k}")
    yield cell(name, "fork floor", _HEAD, least)
    n = 1_000_000
    _commit(store, "main", 0, np.arange(n), random.random(n), parent=None)
    times, written, least = [], [], []
    for k in range(1, options.repeats + 1):
        ids = np.sort(random.choice(n, 1000, replace=False))
        least.append(1e3 * floor.seconds([bytes(16_000)]))
        commit = partial(_commit, store, "main", k, ids, random.random(1000), kind="delta")
        took, version = timed(commit)
        times.append(1e3 * took)
        written.append((version.segments[-1].bytes + len(version.encode())) / 16_000)
    floor.clear()
    yield cell(name, "delta", n, times)
    yield cell(name, "delta floor", n, least)
    yield cell(name, "amplification", n, written)
    for k in range(options.repeats, options.deltas + 1):
        ids = np.sort(random.choice(n, 10, replace=False))
        _commit(store, "main", k, ids, random.random(10), kind="delta")
        if k % 64 == 0:
            store.compact("main")  # as something in the background would
    between = _reads(store, "main")
    store.compact("main")
    ((_, state),) = store.read("main")
    _commit(store, "equal", 0, state["id"], state["value"], parent=None)
    compacted, equal = _reads(store, "main"), _reads(store, "equal")
    yield cell(name, "behind", n, [compacted / equal])
    yield cell(name, "between", n, [between / equal])
    for loop in store.loops():
        store.delete(loop)
    n = 100_000
    _commit(store, "main", 0, np.arange(n), random.random(n), parent=None)
    one = _bytes(store)
    for k in range(100):
        store.fork("main", f"fork-{k}")
        ids = np.sort(random.choice(n, n // 100, replace=False))
        _commit(store, f"fork-{k}", 1, ids, random.random(ids.size), kind="delta")
    yield cell(name, "forks", n, [_bytes(store) / one])
    for loop in store.loops():
        store.delete(loop)
    yield cell(name, "prune", options.answers, list(_prunes(store, options.answers)))
    store.close()


def _prunes(store: Store, answers: int) -> Iterator[float]:
    """Milliseconds to drop 64 versions of a loop, of which many answers were forked."""
    ids = np.arange(10)
    _commit(store, "main", 0, ids, ids / 2, parent=None)
    for k in range(1, answers + 5 * 64 + 1):
        _commit(store, "main", k, ids, ids + k / 2, kind="delta" if k % 32 else "base")
        if k <= answers:
            store.fork("main", f"main-{k}")
        if k % 64 == 0:
            milliseconds = 1e3 * seconds(lambda: store.prune("main", 64))
            if k > answers:
                yield milliseconds


def _commit(
    store: Store,
    loop: str,
    iteration: int,
    ids: Any,
    values: Any,
    kind: Any = "base",
    parent: Any = ...,
) -> Any:
    ref = store.put_segment(loop, 0, iteration, kind, {"id": ids, "value": values})
    parent = store.head(loop) if parent is ... else parent
    return store.commit(loop, iteration=iteration, segments=[ref], parent=parent)


def _reads(store: Store, loop: str) -> float:
    """Milliseconds in which a store that was just opened reads the newest version; median of 5."""
    times = []
    for _ in range(5):
        fresh = open_store(store.backend.address, create=False)
        times.append(1e3 * seconds(lambda fresh=fresh: list(fresh.read(loop))))  # type: ignore[misc]
        fresh.close()
    return statistics.median(times)


def _bytes(store: Store) -> int:
    """What segments and manifests take, wherever pages and indices may be half empty."""
    backend = store.backend
    refs = {
        ref.key: ref.bytes for loop in store.loops() for ref in store.segments(store.version(loop))
    }
    manifests = sum(len(backend.get_manifest(name) or b"") for name in backend.list_manifests())
    return sum(refs.values()) + manifests


def _backends(text: str) -> tuple[str, ...]:
    words = tuple(text.split(","))
    for word in words:
        if "=" not in word and word not in BUILT_IN:
            known = ", ".join(BUILT_IN)
            raise argparse.ArgumentTypeError(f"no backend {word!r}: one of {known}, or NAME=URL")
    return words


@dataclass(frozen=True, slots=True)
class Sizes:
    """Options of the suite."""

    sizes: tuple[int, ...] = option((100_000, 1_000_000, 10_000_000), "vertices, for forks")
    base: int = option(10_000_000, "vertices of the base that is committed")
    deltas: int = option(1000, "deltas behind a read")
    answers: int = option(20_000, "loops beside one whose versions are dropped")
    repeats: int = option(15, "of most measures")
    backends: tuple[str, ...] = option(
        BUILT_IN, "of lmdb,redis,postgres,memory, or NAME=URL", _backends
    )
    scale: int = option(20, "R-MAT scale of the graph for PageRank; 0: leave out", int)
    runs: str = option("lmdb", "backends on which PageRank runs")
    cores: int = 2


@dataclass
class Results(SuiteResults[Sizes]):
    """Cells by backend, and why a backend is missing."""

    cells: dict[str, list[Cell]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    used: float = 0.0

    def others(self) -> float:
        """What share of the cores other programs used when it began."""
        return self.used

    def problems(self) -> list[str]:
        return [f"{name}: not available: {why}" for name, why in self.missing.items()]

    def plain(self) -> dict[str, Any]:
        return {"deltas": self.sizes.deltas, "cells": self.cells}

    def measured(self) -> list[Key]:
        """The measures that there are, each with its size."""
        every = {(c["measure"], c["n"]): c["unit"] for cells in self.cells.values() for c in cells}
        return sorted(every, key=lambda key: (list(ABOUT).index(key[0]), key[1]))

    def title(self, key: Key) -> str:
        deltas = self.sizes.deltas
        return ABOUT[key[0]].format(n=key[1], deltas=deltas, late=deltas % 64)

    def cell(self, backend: str, key: Key) -> Cell | None:
        return next((c for c in self.cells[backend] if (c["measure"], c["n"]) == key), None)


def _execute(r: Results, options: argparse.Namespace) -> None:
    r.used = machine.others()
    for name in r.sizes.backends:
        try:
            with (
                tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as directory,
                _started(name, directory) as (title, url),
            ):
                r.cells[title] = list(_measure(title, url, directory, r.sizes))
                if r.sizes.scale and title in r.sizes.runs.split(","):
                    r.cells[title].append(_overhead(title, url, Path(directory), r.sizes, options))
        except NotInstalled as error:
            say(f"{name}: not available: {error}")
            r.missing[name] = str(error)


@contextmanager
def _started(name: str, directory: str) -> Iterator[tuple[str, str]]:
    title, _, url = name.partition("=")
    plain = {"memory": "memory://benchmark", "lmdb": f"lmdb://{directory}/store"}
    with ExitStack() as stack:
        if name == "redis":
            url = stack.enter_context(RedisServer()).url()
        elif name == "postgres":
            server = PostgresServer("max_wal_size=4GB", "shared_buffers=256MB")
            url = stack.enter_context(server).url()
        yield title, url or plain[name]


def _overhead(
    name: str, url: str, scratch: Path, sizes: Sizes, options: argparse.Namespace
) -> Cell:
    given, cache, limits = replace(sizes, runs=url), cache_of(options), limits_of(options)
    found = run_case(__name__, "committing", given, cache, scratch / "case", limits, say)
    if found.problem:
        raise SystemExit(f"{name}: the run failed: {found.problem}")
    pairs = zip(found.of("committed"), found.of("plain"), strict=True)  # one after the other
    values = [100 * (committed / plain - 1) for committed, plain in pairs]
    return cell(name, "overhead", found.edges, values) | {"seconds": found.figures}


@contextmanager
def _loaded(process: CaseProcess, sizes: Sizes) -> Iterator[tuple[Any, ...]]:
    told, spark = graphs.of_scale(sizes.scale, process.cache), session()
    graph = Graph.read(spark, told.parquet, multi=True, partitions=1)
    process.ready(told.edges, told.origin)
    yield process, sizes.runs, graph
    graph.unpersist()
    spark.stop()


def committing(process: CaseProcess, url: str, graph: Graph) -> None:
    """A PageRank run that commits every iteration against one that commits once, in turn.

    Noted are the seconds of the loops (loading and compiling are not in them) and the megabytes.
    """
    for turn in range(1 + _RUNS):
        for kind, every in (("plain", None), ("committed", 1)):
            result = run(
                PageRank, graph, params={"iterations": ITERATIONS}, backend=url, commit_every=every,
                progress=False,
            )  # fmt: skip
            with open_store(url, create=False) as store:
                expected = list(range(1, ITERATIONS + 1)) if every else [ITERATIONS]
                assert store.versions(result.loop) == expected
            if turn:
                process.note(kind, result.statistics["seconds"])
        if turn:
            process.note("megabytes", result.statistics["backend_bytes"] / 1e6)


def _sections(r: Results) -> list[tuple[Any, ...]]:
    measures = Table(["measure", *r.cells], [
        [r.title(key), *(_shown(r.cell(name, key)) for name in r.cells)] for key in r.measured()
    ])  # fmt: skip
    charts = [_chart(r, "ms", "Milliseconds"), _chart(r, "MB/s", "Throughput")]
    return [
        ("What must be reached", [_aims(r)]),
        ("Measures", "Median (least to greatest).", [measures, *charts]),
    ]


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    low, high = min(cell["values"]), max(cell["values"])
    spread = f" ({low:.3g} to {high:.3g})" if len(cell["values"]) > 1 else ""
    return f"**{cell['median']:.3g}** {cell['unit']}{spread}"


def _aims(r: Results) -> Table:
    rows, plain = [], Sizes()
    as_stated = (r.sizes.base, r.sizes.deltas) == (plain.base, plain.deltas)
    for key in r.measured():
        for name in r.cells:
            cell = r.cell(name, key)
            if cell and cell["aim"] is not None:
                verdict = "reached" if cell["reached"] else "**not reached**"
                rows.append([
                    f"{r.title(key)}, {name}", f"{cell['median']:.3g} {cell['unit']}",
                    f"{'≤' if cell['lower'] else '≥'} {cell['aim']:g}",
                    verdict if as_stated else "stated for other sizes",
                ])  # fmt: skip
    return Table(["what must be reached", "measured", "aim", ""], rows)


def _chart(r: Results, unit: str, title: str) -> Chart | None:
    keys = [key for key in r.measured() if AIMS[key[0]][0] == unit]
    series = {
        name: [cell["median"] if (cell := r.cell(name, key)) else None for key in keys]
        for name in r.cells
    }
    return bars(title, unit, [r.title(key).replace("*", "") for key in keys], series)


SUITE = CaseSuite(
    name="state",
    title="Suite state: what versions cost",
    about="Forks, commits and reads of versioned state on every backend, each beside its floor: "
    "the same bytes by a plain write and fsync, by SET, or by INSERT, in turn with it.",
    sizes=Sizes, cases={"committing": committing}, context=_loaded, execute=_execute, flag="",
    results=Results, sections=_sections, failed=lambda r: False, stem=lambda s: "state",
    notes=lambda r: [
        "Redis is durable after every write (`appendfsync always`), Postgres as it comes; their "
        "servers run on this machine, their data in the directory for temporary files.",
        "LMDB's floor is a plain write and fsync of the same bytes to the same disk.",
    ],
    quick="--sizes 100000,1000000 --base 1000000 --deltas 200 --repeats 7 --answers 2000 --scale 0",
)  # fmt: skip
