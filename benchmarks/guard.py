"""``python -m benchmarks check``: the regression guard.

Measures ours beside a peer in the same run, and compares the ratios with those stored in
benchmarks/guard.json. Exit status 1: an answer is wrong, or a ratio is beyond its margin, which is
wide; 2: bad arguments, or nothing stored.

What measures is ``python -m benchmarks.guard CACHE SCRATCH RESULT``, ours and its peer in turn, in
one process with one session. Each line begins with a round that is not timed, so sessions, workers
and kernels are warm; of the rounds that count the least time of each side is taken, which what else
runs touches least.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks import graphs, machine, processes, rmat
from benchmarks.answers import Wrong
from benchmarks.document import grid
from benchmarks.evolving.cases import Context, changes_of
from benchmarks.evolving.sizes import Sizes
from benchmarks.measures import BY_NAME
from benchmarks.options import default_cache, say
from benchmarks.peers import Peer, Settings, Unavailable
from benchmarks.peers.ours import Ours
from benchmarks.peers.scipy import SciPy
from benchmarks.state.floors import floor_of
from benchmarks.systems import Turn
from benchmarks.timing import in_turns, seconds
from vertexsdk.state import open_store

FACTOR = 3.0
"""How many times the stored ratio the found one may be, where a line says nothing else."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line as measured: the least seconds of ours and of its peer, or why there are none."""

    title: str
    peer: str
    seconds: list[float] = field(default_factory=list)
    problem: str | None = None

    @property
    def ratio(self) -> float:
        """How many times the peer's."""
        ours, theirs = self.seconds
        return ours / theirs


@dataclass(frozen=True, slots=True)
class Stored:
    """What a line came to when it was stored, and its margin."""

    ratio: float
    factor: float = FACTOR

    @property
    def most(self) -> float:
        """The greatest ratio that is within the margin."""
        return self.ratio * self.factor


def read(path: Path) -> dict[str, Stored]:
    """The stored lines by title.

    Raises:
        ValueError: the file is none of the guard's.
    """
    try:
        lines = json.loads(path.read_text())["lines"]
        found = {title: Stored(float(s["ratio"]), float(s["factor"])) for title, s in lines.items()}
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: no stored ratios ({type(error).__name__}: {error})") from None
    bad = [title for title, each in found.items() if not (each.ratio > 0 and each.factor >= 1)]
    if bad:
        raise ValueError(f"{path}: {bad[0]}: a ratio is above 0, and a factor at least 1")
    return found


def stored_as(
    found: list[Comparison], before: Mapping[str, Stored], machine: Mapping[str, Any]
) -> dict[str, Any]:
    """What to write for the next time; a margin that was set for a line stays."""
    lines = {
        each.title: {
            "ratio": float(f"{each.ratio:.3g}"),
            "factor": before[each.title].factor if each.title in before else FACTOR,
        }
        for each in found
    }
    return {
        "stored": machine["date"],
        "machine": f"{machine['processor']}, {machine['cores']} cores",
        "revision": machine["revision"],
        "lines": lines,
    }


def better(first: list[Comparison], second: list[Comparison]) -> list[Comparison]:
    """Of each line the measurement with the smaller ratio; one that has none stays as it was."""
    again = {each.title: each for each in second if not each.problem}
    found = []
    for each in first:
        other = again.pop(each.title, None)
        worse = other is not None and not each.problem and other.ratio < each.ratio
        found.append(other if other is not None and worse else each)
    return [*found, *again.values()]


def failed(found: list[Comparison], stored: Mapping[str, Stored]) -> list[str]:
    """Why the check fails: a line beyond its margin, without a figure, or not there any more."""
    missing = set(stored) - {each.title for each in found}
    reasons = [f"{title}: stored, but not measured" for title in sorted(missing)]
    for each in found:
        if each.problem:
            reasons.append(f"{each.title}: {each.problem}")
        elif (
            each.title in stored
            and each.ratio > stored[each.title].ratio * stored[each.title].factor
        ):
            times = each.ratio / stored[each.title].ratio
            reasons.append(f"{each.title}: {times:.1f} times the stored ratio")
    return reasons


def compared(found: list[Comparison], stored: Mapping[str, Stored]) -> str:
    """All lines as a table in Markdown."""
    rows = [["", "peer", "ours, s", "peer, s", "ratio", "stored", "at most", ""]]
    for each in found:
        if each.problem:
            rows.append([each.title, each.peer, "–", "–", "–", "–", "–", f"**{each.problem}**"])
            continue
        row = [each.title, each.peer]
        row += [f"{number:.3g}" for number in (*each.seconds, each.ratio)]
        known = stored.get(each.title)
        if known is None:
            rows.append([*row, "–", "–", "not stored yet"])
            continue
        verdict = "good" if each.ratio <= known.most else "**beyond its margin**"
        if each.ratio * known.factor < known.ratio:
            verdict = "better by more than its margin: store it"
        rows.append([*row, f"{known.ratio:.3g}", f"{known.most:.3g}", verdict])
    return grid(rows)


STORED = Path(__file__).with_name("guard.json")


def main(arguments: list[str]) -> int:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks check", description=__doc__)
    add = parser.add_argument
    add("--store", action="store_true", help="store what is found, in place of comparing")
    add("--file", metavar="FILE", default=str(STORED), help="the stored ratios")
    add("--time-limit", type=float, default=300, help="seconds for all of it (300)")
    add("--cache", metavar="DIR", default=default_cache(), help="where graphs are kept")
    options = parser.parse_args(arguments)
    path = Path(options.file)
    try:
        stored = read(path)
    except ValueError as error:
        if not options.store:
            print(f"check: {error}", file=sys.stderr)
            return 2
        stored = {}
    began = time.monotonic()
    found = measured(Path(options.cache), options.time_limit)
    if not options.store and failed(found, stored):
        say("beyond a margin: measured once more, as the machine may have been busy")
        found = better(found, measured(Path(options.cache), options.time_limit))
    print(compared(found, stored))
    say(f"measured in {time.monotonic() - began:.0f} s")
    broken = [f"{each.title}: {each.problem}" for each in found if each.problem]
    if options.store:
        if not broken:
            new = stored_as(found, stored, machine.describe())
            path.write_text(json.dumps(new, indent=1) + "\n")
            say(f"stored: {path.name}")
    else:
        broken = failed(found, stored)
    for reason in broken:
        print(f"check: {reason}", file=sys.stderr)
    return 1 if broken else 0


def measured(cache: Path, limit: float) -> list[Comparison]:
    """What `measuring` finds, in a process of its own; ended when its time is up."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vertexsdk-check-") as scratch:
        result = Path(scratch) / "result.json"
        command = [sys.executable, "-m", "benchmarks.guard"]
        status = processes.run_until([*command, str(cache), scratch, str(result)], limit)
        found = json.loads(result.read_text()) if result.exists() else []
    lines = [Comparison(**each) for each in found]
    if status != 0:
        why = f"not done in {limit:g} s" if status is None else f"ended with status {status}"
        lines.append(Comparison("the rest", "–", problem=f"the measuring process {why}"))
    return lines


_CHAIN, _SMALL, _ITERATIONS = 20, 11, 5


_VERTICES, _CHANGED = 1_000_000, 1000


def hops(ours: Ours) -> Comparison:
    """A hop over two partitions that carries next to nothing, beside a job of two Python tasks."""
    context = ours.spark.sparkContext
    ours.release()  # two processors want all slots but one
    along = np.arange(_CHAIN)
    graph = ours.Graph.from_arrays(along[:-1], along[1:], spark=ours.spark, partitions=2)

    def hop() -> float:
        figures = ours._result("bfs", graph, {"origin": 0}).statistics
        return float(figures["seconds"] / figures["hops"])

    def jobs() -> None:
        for _ in range(_CHAIN):
            context.parallelize(range(2), 2).map(abs).collect()

    def job() -> float:
        return seconds(jobs) / _CHAIN

    least = in_turns(3, [hop, job])
    problem = None if graph.workers.resident else "no processors hold the graph"
    graph.unpersist()
    return Comparison("a hop over 2 partitions", "a Spark job of 2 Python tasks", least, problem)


def interpreted(ours: Ours) -> Comparison:
    """PageRank by the interpreter, beside a loop over lists in plain Python."""
    source, target = rmat.pairs(_SMALL, 0, 16 << _SMALL)
    graph = ours.Graph.from_arrays(source, target, spark=ours.spark, multi=True, partitions=1)
    params = {"iterations": _ITERATIONS}
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))

    def program() -> float:
        result = ours._result("pagerank", graph, params, compiled=False)
        return float(result.statistics["seconds"])

    in_turns(1, [program])
    least = in_turns(3, [program, lambda: seconds(lambda: _loop(pairs, 1 << _SMALL))])
    graph.unpersist()
    return Comparison("PageRank, interpreted", "a loop in plain Python", least)


def _loop(pairs: list[tuple[int, int]], n: int) -> list[float]:
    degree = [0] * n
    for source, _ in pairs:
        degree[source] += 1
    rank = [1.0 / n] * n
    for _ in range(_ITERATIONS):
        arrived = [0.0] * n
        for source, target in pairs:
            arrived[target] += rank[source] / degree[source]
        rank = [0.15 / n + 0.85 * value for value in arrived]
    return rank


def commits(scratch: Path) -> list[Comparison]:
    """A base and a delta, put and committed to LMDB, beside the same bytes written and synced."""
    random = np.random.default_rng(0)
    numbers = count()
    with open_store(f"lmdb://{scratch}/commits") as store:
        floor = floor_of("lmdb://", str(scratch))

        def commit(loop: str, kind: Literal["base", "delta"], parent: Any, n: int) -> float:
            ids = np.sort(random.choice(_VERTICES, n, replace=False))
            columns = {"id": ids, "value": random.random(n)}
            iteration = next(numbers)
            began = time.perf_counter()
            ref = store.put_segment(loop, 0, iteration, kind, columns)
            store.commit(loop, iteration=iteration, segments=[ref], parent=parent)
            return time.perf_counter() - began

        def base() -> float:
            loop = f"base-{next(numbers)}"
            took = commit(loop, "base", None, _VERTICES)
            store.delete(loop)
            return took

        def plain(size: int) -> float:
            floor.clear()
            return floor.seconds([bytes(size)])

        commit("main", "base", None, _VERTICES)
        bases = in_turns(5, [base, lambda: plain(16 * _VERTICES)])
        delta = partial(commit, "main", "delta", n=_CHANGED)
        deltas = in_turns(
            15, [lambda: delta(parent=store.head("main")), lambda: plain(16 * _CHANGED)]
        )
        floor.clear()
    peer = "the same bytes written and synced"
    return [
        Comparison("commit of a base of 1,000,000 vertices", peer, bases),
        Comparison("commit of a delta of 1,000 vertices", peer, deltas),
    ]


SCALE = 16


BATCH = {
    "load_text": ("load from text to ready", 4),
    "pagerank": ("PageRank, 10 iterations", 9),
    "components": ("connected components", 9),
    "shortest_paths": ("shortest paths", 9),
}
"""Measures of the suite batch: the name here, by which a ratio is stored, and the rounds."""


CHANGES, ROUNDS = 200, 8  # between two queries; of these


def queries(ours: Ours, cache: Path, scratch: Path, cores: int) -> Comparison:
    """Shortest paths on R-MAT 16 without parallel edges, by a main loop and by `run`."""
    sizes = Sizes(scale=SCALE, cores=cores)
    context = Context(sizes, cache, scratch / "queries", lambda name, value: None)
    graph = ours.Graph.read(ours.spark, edges=context.stream.parquet, partitions=1)
    graph.materialise(("out", "float64", "combined"))
    params = {"origin": context.stream.origin}
    problem = None
    with context.main("shortest_paths", None) as main:

        def query() -> float:
            main.ingest(changes_of(context.stream.take(CHANGES)))
            return seconds(main.query)

        sides = [query, lambda: seconds(lambda: ours._result("shortest_paths", graph, params))]
        in_turns(2, sides)
        least = in_turns(ROUNDS, sides)
        try:
            context.check("shortest_paths", main.query())
        except Wrong as wrong:
            problem = f"wrong answer of ours: {wrong}"
    title = f"query after {CHANGES} changes, shortest paths"
    return Comparison(title, "run() from scratch", least, problem)


def measure() -> None:
    """Measure, and write."""
    cache, scratch, result = (Path(word) for word in sys.argv[1:4])
    cores = len(os.sched_getaffinity(0))
    slots = max(cores, 3)  # two processors and one task that waits; threads are those of the cores
    settings = Settings(slots, processes.available() // 2, str(scratch))
    ours = Ours(settings)
    ours.start()
    lines: list[Callable[[], Iterable[Comparison]]] = [
        lambda: batch(ours, SciPy(settings), cache),
        lambda: [queries(ours, cache, scratch, cores)],
        lambda: [hops(ours)],
        lambda: [interpreted(ours)],
        lambda: commits(scratch),
    ]
    found: list[Comparison] = []
    for line in lines:
        for each in line():
            found.append(each)
            say(f"{each.title}: {each.problem or f'{each.ratio:.3g} times {each.peer}'}")
            result.write_text(json.dumps([asdict(each) for each in found]))
    ours.stop()


def batch(ours: Peer, peer: Peer, cache: Path) -> Iterator[Comparison]:
    """Load and three algorithms, beside SciPy, on R-MAT 16; their answers are compared first."""
    graph = graphs.of_scale(SCALE, cache)
    try:
        peer.start()
    except Unavailable as reason:
        yield from (Comparison(title, peer.title, [], str(reason)) for title, _ in BATCH.values())
        return
    sides = [Turn(ours, graph.folder), Turn(peer, graph.folder)]
    for name, (title, rounds) in BATCH.items():
        problem = None
        for side in sides:
            side.ready(name)
            answer: dict[str, Any] = side.once(name)[1]()
            wrong = BY_NAME[name].check(graph, answer)
            if wrong:
                problem = f"wrong answer of {side.system.title}: {wrong}"
        least = in_turns(rounds, [lambda s=side, n=name: s.once(n)[0] for side in sides])
        yield Comparison(title, peer.title, least, problem)


if __name__ == "__main__":
    measure()
