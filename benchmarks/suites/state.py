"""Suite ``state``: what versions cost, on every backend in one run.

Forks, commits of deltas and of whole bases, reads of single vertices by a cold process, reads
behind many deltas before and after compaction, and the space of many forks. Servers are started
for it on this machine with their data in the directory for temporary files, Redis with
``appendfsync always``; ``--backends NAME=URL`` takes others. Beside each measure stands its floor:
the same bytes by a plain write and fsync, by SET, or by INSERT, in turn with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import graphs, machine
from benchmarks.options import add_folders, publish, quotable, say
from benchmarks.state import cold, table
from benchmarks.state.cells import Cell, cell
from benchmarks.state.floors import floor_of
from tests.support.servers import NotInstalled, PostgresServer, RedisServer
from vertexsdk.state import Store, open_store

BUILT_IN = ("lmdb", "redis", "postgres", "memory")
QUICK = (
    "--sizes", "100000,1000000", "--base", "1000000", "--deltas", "200", "--repeats", "7",
    "--answers", "2000", "--scale", "0",
)  # fmt: skip
"""For `./dev bench --quick`."""

_HEAD = 100  # bytes that a fork writes, about


def main(arguments: list[str]) -> int:
    """Run the suite; exit status 0, or 2 for bad arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks state", description=__doc__)
    add = parser.add_argument
    add("--sizes", default="100000,1000000,10000000", help="vertices, for forks")
    add("--base", type=int, default=10_000_000, help="vertices of the base that is committed")
    add("--deltas", type=int, default=1000, help="deltas behind a read")
    add("--answers", type=int, default=20_000, help="loops beside one whose versions are dropped")
    add("--repeats", type=int, default=15)
    add("--backends", default=",".join(BUILT_IN), help="of lmdb,redis,postgres,memory, or NAME=URL")
    add("--scale", type=int, default=20, help="R-MAT scale of the graph for PageRank; 0: leave out")
    add("--runs", default="lmdb", help="backends on which PageRank runs")
    add_folders(parser)
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.sizes.split(",")]
    result: dict[str, Any] = {"machine": machine.describe()}
    result["command"] = ["bench", "state", *quotable(arguments)]
    result["others"] = machine.others()
    result["deltas"] = options.deltas
    plain = parser.parse_args([])
    result["as_stated"] = (options.base, options.deltas) == (plain.base, plain.deltas)
    cells: dict[str, list[Cell]] = {}
    missing: dict[str, str] = {}
    for name in options.backends.split(","):
        try:
            with (
                tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as directory,
                _started(name, directory) as (title, url),
            ):
                cells[title] = list(_measure(title, url, directory, sizes, options))
                if options.scale and title in options.runs.split(","):
                    cells[title].append(_overhead(title, url, options))
        except NotInstalled as error:
            say(f"{name}: not available: {error}")
            missing[name] = str(error)
    result |= {"cells": cells, "missing": missing}
    publish(table.document(result), {"deltas": options.deltas, "cells": cells}, options, "state")
    return 0


@contextmanager
def _started(name: str, directory: str) -> Iterator[tuple[str, str]]:
    title, equals, url = name.partition("=")
    with ExitStack() as stack:
        if equals:
            pass
        elif name == "redis":
            server = RedisServer()
            stack.enter_context(server)
            url = server.url()
        elif name == "postgres":
            postgres = PostgresServer("max_wal_size=4GB", "shared_buffers=256MB")
            stack.enter_context(postgres)
            url = postgres.url()
        elif name == "memory":
            url = "memory://benchmark"
        elif name == "lmdb":
            url = f"lmdb://{directory}/store"
        else:
            raise SystemExit(f"no backend {name!r}: one of {', '.join(BUILT_IN)}, or NAME=URL")
        yield title, url


def _measure(
    name: str, url: str, directory: str, sizes: list[int], options: argparse.Namespace
) -> Iterator[Cell]:
    random = np.random.default_rng(0)
    store = open_store(url)
    if name == "memory":
        directory = store.backend.path  # type: ignore[attr-defined]
    floor = floor_of(url, directory)
    n = options.base
    values = random.random(n)
    size = 16 * n
    ids = np.arange(n)
    seconds, plain = [], []
    for _ in range(5):
        plain.append(floor.seconds([ids.data.cast("B"), values.data.cast("B")]))
        floor.clear()
        floor = floor_of(url, directory)
        began = time.perf_counter()
        _commit(store, "base", 0, ids, values, parent=None)
        seconds.append(time.perf_counter() - began)
    yield cell(name, "base", n, [size / s / 1e6 for s in seconds])
    yield cell(name, "base floor", n, [size / s / 1e6 for s in plain])
    some = random.integers(n, size=7).tolist()
    yield cell(name, "point", n, [cold.read(name, store, vertex) for vertex in some])
    yield cell(name, "point floor", n, [cold.floor(name, store) for _ in range(7)])
    store.delete("base")
    for size in sizes:
        _commit(store, "main", 0, np.arange(size), random.random(size), parent=None)
        times, least = [], []
        for k in range(options.repeats):
            least.append(1e3 * floor.seconds([bytes(_HEAD)]))
            times.append(_milliseconds(lambda k=k: store.fork("main", f"fork-{k}")))  # type: ignore[misc]
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
        began = time.perf_counter()
        version = _commit(store, "main", k, ids, random.random(1000), kind="delta")
        times.append(1e3 * (time.perf_counter() - began))
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
            milliseconds = _milliseconds(lambda: store.prune("main", 64))
            if k > answers:
                yield milliseconds


def _overhead(name: str, url: str, options: argparse.Namespace) -> Cell:
    graph = graphs.of_scale(options.scale, Path(options.cache))
    command = [sys.executable, "-m", "benchmarks.state.committing", graph.parquet, url]
    done = subprocess.run([*command, "4"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: the run failed: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    pairs = zip(found["committed"], found["plain"], strict=True)  # run one after the other
    values = [100 * (committed / plain - 1) for committed, plain in pairs]
    return cell(name, "overhead", graph.edges, values) | {"seconds": found}


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
        times.append(_milliseconds(lambda fresh=fresh: list(fresh.read(loop))))  # type: ignore[misc]
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


def _milliseconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - began)
