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
from benchmarks.suites.floors import COLD, floor_of
from vertexsdk.state import Store, open_store
from vertexsdk.testing.servers import NotInstalled, PostgresServer, RedisServer

BUILT_IN = ("lmdb", "redis", "postgres", "memory")
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
    "overhead": "committing every iteration, PageRank on {n:,} edges, over committing once",
}
_COLD = """
import importlib, sys, time
import vertexsdk.backends, vertexsdk.partition
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

_HEAD = 100  # bytes that a fork writes, about

Cell = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Run the suite; exit status 0, or 2 for bad arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks state", description=__doc__)
    add = parser.add_argument
    add("--sizes", default="100000,1000000,10000000", help="vertices, for forks")
    add("--base", type=int, default=10_000_000, help="vertices of the base that is committed")
    add("--deltas", type=int, default=1000, help="deltas behind a read")
    add("--repeats", type=int, default=15)
    add("--backends", default=",".join(BUILT_IN), help="of lmdb,redis,postgres,memory, or NAME=URL")
    add("--scale", type=int, default=20, help="R-MAT scale of the graph for PageRank; 0: leave out")
    add("--runs", default="lmdb", help="backends on which PageRank runs")
    add("--cache", default=str(Path.home() / ".cache" / "vertexsdk-benchmarks"), help="directory")
    add("--out", default=str(Path(__file__).parent.parent / "results"), help="directory")
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.sizes.split(",")]
    result: dict[str, Any] = {"machine": machine.describe(), "command": ["state", *arguments]}
    result["deltas"] = options.deltas
    cells: dict[str, list[Cell]] = {}
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
            print(f"{name}: {error}", file=sys.stderr)
    result["cells"] = cells
    text = _markdown(result)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "state.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "state.md").write_text(text)
    print(text)
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
    yield _cell(name, "base", n, [size / s / 1e6 for s in seconds])
    yield _cell(name, "base floor", n, [size / s / 1e6 for s in plain])
    cold = [
        float(_child(store.backend.address, int(random.integers(n)), _MODULES.get(name, "redis")))
        for _ in range(7)
    ]
    yield _cell(name, "point", n, cold)
    yield _cell(name, "point floor", n, [_cold_floor(name, store) for _ in range(7)])
    store.delete("base")
    for size in sizes:
        _commit(store, "main", 0, np.arange(size), random.random(size), parent=None)
        times, least = [], []
        for k in range(options.repeats):
            least.append(1e3 * floor.seconds([bytes(_HEAD)]))
            times.append(_milliseconds(lambda k=k: store.fork("main", f"fork-{k}")))  # type: ignore[misc]
        yield _cell(name, "fork", size, times)
        for k in range(options.repeats):
            store.delete(f"fork-{k}")
    yield _cell(name, "fork floor", _HEAD, least)
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
    yield _cell(name, "delta", n, times)
    yield _cell(name, "delta floor", n, least)
    yield _cell(name, "amplification", n, written)
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
    yield _cell(name, "behind", n, [compacted / equal])
    yield _cell(name, "between", n, [between / equal])
    for loop in store.loops():
        store.delete(loop)
    n = 100_000
    _commit(store, "main", 0, np.arange(n), random.random(n), parent=None)
    one = _bytes(store)
    for k in range(100):
        store.fork("main", f"fork-{k}")
        ids = np.sort(random.choice(n, n // 100, replace=False))
        _commit(store, f"fork-{k}", 1, ids, random.random(ids.size), kind="delta")
    yield _cell(name, "forks", n, [_bytes(store) / one])
    for loop in store.loops():
        store.delete(loop)
    store.close()


def _overhead(name: str, url: str, options: argparse.Namespace) -> Cell:
    graph = graphs.of_scale(options.scale, Path(options.cache))
    command = [sys.executable, "-m", "benchmarks.suites.committing", graph.parquet, url]
    done = subprocess.run([*command, "4"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: the run failed: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    pairs = zip(found["committed"], found["plain"], strict=True)  # run one after the other
    values = [100 * (committed / plain - 1) for committed, plain in pairs]
    return _cell(name, "overhead", graph.edges, values) | {"seconds": found}


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


def _child(address: str, vertex: int, modules: str) -> str:
    command = [sys.executable, "-c", _COLD, str.__str__(address), str(vertex), modules]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _cold_floor(name: str, store: Store) -> float:
    imports = {"redis": "import redis.client", "postgres": "import psycopg"}.get(name, "")
    work = COLD.get(name, "found = True")
    code = _COLD_FLOOR.format(imports=imports, work=work)
    command = [sys.executable, "-c", code, str.__str__(store.backend.address)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _cell(backend: str, measure: str, n: int, values: list[float]) -> Cell:
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
    return {**cell, "aim": aim, "reached": reached}


def _markdown(result: dict[str, Any]) -> str:
    about = result["machine"]
    lines = ["# What versions cost", ""]
    lines.append(
        f"{about['processor']}, {about['cores']} cores, load {about['load_average']} at the start; "
        f"{about['date']}, {about['revision']}. `./dev bench {' '.join(result['command'])}`"
    )
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines += ["", f"Python {about['python']}, {versions}; {about['system']}."]
    lines += ["", "Median (least to greatest); ✓ or ✗ says whether the aim is reached.", ""]
    names = list(result["cells"])
    lines.append(f"| measure | {' | '.join(names)} |")
    lines.append("| --- |" + " --- |" * len(names))
    rows = {(c["measure"], c["n"]): None for cells in result["cells"].values() for c in cells}
    for key in sorted(rows, key=lambda row: (list(ABOUT).index(row[0]), row[1])):
        deltas = result["deltas"]
        row = [ABOUT[key[0]].format(n=key[1], deltas=deltas, late=deltas % 64)]
        for cells in result["cells"].values():
            found = [cell for cell in cells if (cell["measure"], cell["n"]) == key]
            row.append(_shown(found[0]) if found else "–")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _shown(cell: Cell) -> str:
    mark = {None: "", True: " ✓", False: f" ✗ {cell['aim']:g}" if cell["aim"] else ""}
    low, high = min(cell["values"]), max(cell["values"])
    spread = f" ({low:.3g} to {high:.3g})" if len(cell["values"]) > 1 else ""
    return f"{cell['median']:.3g} {cell['unit']}{spread}{mark[cell['reached']]}"
