"""Suite ``history``: what an answer costs after changes, for programs of every kind.

A case is a program, or one and how it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks import cells, rmat
from benchmarks.answers import Wrong
from benchmarks.document import Table
from benchmarks.options import option
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled
from benchmarks.targets import Target
from vertexsdk import Graph, MainLoop, run

PROGRAMS: dict[str, dict[str, Any]] = {
    "degree": {}, "triangles": {}, "lcc": {}, "kcore": {}, "cdlp": {}, "scc": {}, "wcc": {},
    "sssp": {"origin": 0}, "pagerank": {"epsilon": 1e-6}, "pagerank-10": {"iterations": 10},
    "bfs": {"origin": 0}, "katz": {"alpha": 1e-6},
}  # fmt: skip
GAINS = (("triangles", 1, 50.0), ("lcc", 1, 50.0), ("kcore", 1, 50.0), ("cdlp", 10, 5.0))
SHARES = ("wcc", "scc", "kcore")  # of the work of a run, that one change takes
_WORST = 1.3
_REGRET = 0.04
_SHARE = 0.0001


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    scale: int = option(18, "of R-MAT")
    changes: tuple[int, ...] = option((1, 10, 100, 1000), "in a batch: 1,10,100,1000")
    partitions: tuple[int, ...] = option((1, 2), "of the graph: 1,2")
    repeats: int = option(7, "batches of each size, and runs from scratch")
    cores: int = 2


def _case(case: str, process: CaseProcess, sizes: Sizes) -> None:
    """Ingest and query in turn with runs from scratch; the answers must be equal."""
    source, target = rmat.pairs(sizes.scale, 0, rmat.EDGE_FACTOR << sizes.scale)
    edges = np.unique(np.stack([source, target]), axis=1)
    chance = np.random.default_rng(1)
    for partitions in sizes.partitions:
        params, name = PROGRAMS[case], case.partition("-")[0]
        graph = Graph.from_arrays(*edges, partitions=partitions)
        url = f"memory://history-{partitions}"
        with ExitStack() as stack:
            make = partial(MainLoop, name, graph, params=params)
            main = stack.enter_context(make(backend=url))
            loops = {"": main}
            answer = main.query()
            if "history_bytes" in answer.statistics:
                per_edge = answer.statistics["history_bytes"] / edges.shape[1]
                process.note(f"{partitions} bytes", per_edge)
                loops["init "] = stack.enter_context(make(backend=url + "-init", history=False))
                loops["init "].query().close()
            for turn in range(sizes.repeats + 1):
                scratch = partial(_run, name, params, graph, partitions)
                updates = process.timed(f"{partitions} run" if turn else "", scratch)
                process.note(f"{partitions} run updates", updates)
                for count in sizes.changes:
                    added = _absent(chance, edges, 1 << sizes.scale, count).tolist()
                    for sign, (way, loop) in product("+-", loops.items()):
                        changes = [(sign, a, b) for a, b in zip(*added, strict=True)]
                        part = f"{partitions} {count} {way}" if turn else ""
                        process.timed(part and part + "ingest", partial(loop.ingest, changes))
                        answer = process.timed(part and part + "query", loop.query)
                        if part:  # the first compiles
                            process.note(part + "updates", answer.statistics["updates"])
                        answer.close()
            extra = list(zip(*added, strict=True))
            main.ingest([("+", *e) for e in extra])
            _compare(name, params, main.query(), edges, extra)


def _absent(chance: Any, edges: Any, vertices: int, count: int) -> Any:
    """Draw edges that the graph does not have, int64[2, count]."""
    known = edges[0] * vertices + edges[1]  # ascending, as `edges` is
    drawn = chance.integers(0, vertices**2, 2 * count + 8)
    at = np.minimum(np.searchsorted(known, drawn), len(known) - 1)
    drawn = drawn[known[at] != drawn][:count]
    return np.stack([drawn // vertices, drawn % vertices])


def _run(program: str, params: Any, graph: Any, partitions: int) -> int:
    """Return how many times a vertex gathered."""
    url = f"memory://history-{partitions}-run"
    with run(program, graph, params=params, backend=url, replace=True) as result:
        return int(result.statistics["updates"])


def _compare(program: str, params: Any, answer: Any, edges: Any, extra: list[Any]) -> None:
    """Refuse an answer that differs from that of a run on a graph that is loaded as it is now."""
    now = np.concatenate([edges, np.array(extra, np.int64).reshape(-1, 2).T], axis=1)
    graph = Graph.from_arrays(*now)
    other = run(program, graph, params=params, backend="memory://history-check")
    ids, values = answer.values()
    others, expected = other.values()
    same = np.array_equal(ids, others) and np.allclose(values, expected, atol=1e-4)
    if not same:
        raise Wrong(f"{program}: another answer than from scratch")


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def answer(self, program: str, partitions: int, count: int, way: str = "") -> float | None:
        """Median seconds of ingest and query together; with "init ", without a history."""
        place = f"{partitions} {count} {way}"
        parts = [self.median(program, place + part) for part in ("ingest", "query")]
        return None if None in parts else sum(p for p in parts if p is not None)

    def gain(self, program: str, partitions: int, count: int) -> float | None:
        """How many times as fast as a run from scratch."""
        run = self.median(program, f"{partitions} run")
        answer = self.answer(program, partitions, count)
        return None if run is None or not answer else run / answer

    def share(self, program: str, partitions: int, count: int) -> float | None:
        """The vertices that gather after changes, as a part of those in a run."""
        run = self.median(program, f"{partitions} run updates")
        updates = self.median(program, f"{partitions} {count} updates")
        return None if updates is None or not run else updates / run

    @property
    def places(self) -> Iterator[tuple[str, int, int]]:
        """Programs, numbers of partitions, and of changes."""
        return product(PROGRAMS, self.sizes.partitions, self.sizes.changes)

    def least_gain(self) -> float | None:
        """The smallest gain of all."""
        gains = [gain for place in self.places if (gain := self.gain(*place)) is not None]
        return min(gains, default=None)

    def regret(self, program: str, partitions: int, count: int) -> float | None:
        """By which part an answer takes longer than the better of refined and from `init`."""
        ours = self.answer(program, partitions, count)
        other = self.answer(program, partitions, count, "init ")
        return None if ours is None or not other else ours / min(ours, other) - 1.0

    def mean_regret(self) -> float | None:
        """The mean regret of programs with a history."""
        regrets = [regret for place in self.places if (regret := self.regret(*place)) is not None]
        return sum(regrets) / len(regrets) if regrets else None


def _targets() -> Iterator[Target[Results]]:
    for program, count, least in GAINS:
        for partitions in (1, 2):
            parts = f"{partitions} partition{'s'[: partitions > 1]}"
            title = f"{program}, {count} change{'s'[: count > 1]}, {parts}: from scratch / ours"
            find = partial(Results.gain, program=program, partitions=partitions, count=count)
            yield Target(title, find, least, "×", True)
    for program, partitions in product(SHARES, (1, 2)):
        parts = f"{partitions} partition{'s'[: partitions > 1]}"
        title = f"{program}, 1 change, {parts}: vertices that gather, as a part of a run's"
        find = partial(Results.share, program=program, partitions=partitions, count=1)
        yield Target(title, find, _SHARE, "", False)
    yield Target("the least of all: from scratch / ours", Results.least_gain, 1 / _WORST, "×", True)
    yield Target("the mean regret of the choice", Results.mean_regret, _REGRET, "", False)


def _changes(r: Results) -> list[str]:
    """The heads of the columns by number of changes."""
    return [f"{n:,} change{'s'[: n > 1]}" for n in r.sizes.changes]


def _table(r: Results, partitions: int) -> Table | None:
    rows = []
    for program in PROGRAMS:
        row = [program, r.seconds(program, f"{partitions} run")]
        for count in r.sizes.changes:
            took, gain = r.answer(program, partitions, count), r.gain(program, partitions, count)
            row.append("–" if took is None else f"{cells.seconds(took)} ({gain:.1f} ×)")
        rows.append(row)
    return filled(["program", "from scratch", *_changes(r)], rows)


def _shares(
    r: Results,
    partitions: int,
    head: str,
    figure: str,
    form: str,
    share: Callable[[Results, str, int, int], float | None],
    percent: str,
) -> Table | None:
    """A figure of each program that has it, and a share for each number of changes."""
    rows = []
    for program in PROGRAMS:
        value = r.median(program, f"{partitions} {figure}")
        if value is not None:
            shares = [share(r, program, partitions, n) for n in r.sizes.changes]
            parts = ["–" if x is None else f"{format(100.0 * x, percent)} %" for x in shares]
            rows.append([program, format(value, form), *parts])
    return filled(["program", head, *_changes(r)], rows)


def _work(r: Results, partitions: int) -> Table | None:
    return _shares(r, partitions, "a run", "run updates", ",.0f", Results.share, ".3g")


def _choice(r: Results, partitions: int) -> Table | None:
    return _shares(r, partitions, "bytes per edge", "bytes", ".1f", Results.regret, ".0f")


def _sections(r: Results) -> list[tuple[str, Parts]]:
    names = [(p, f"{p} partition{'s'[: p > 1]}") for p in r.sizes.partitions]
    return [
        *((name, [_table(r, p)]) for p, name in names),
        *((f"Vertices that gather, in {name}", [_work(r, p)]) for p, name in names),
        *(
            (f"History in {name}, and the regret of the choice", [_choice(r, p)])
            for p, name in names
        ),
    ]


def _notes(r: Results) -> list[str]:
    return [
        f"R-MAT {r.sizes.scale} without parallel edges, in this process. Batches of edges between "
        "any two vertices are added, then removed; each is followed by a query. Times are of "
        "ingest and query together, medians; in parentheses, how many times as fast as `run`.",
        "A vertex that gathers in several iterations counts each time: the work of a run, and the "
        "part of it that an answer after changes takes.",
        "Programs with a history answer by it or from `init`, as the loop chooses. The regret is "
        "the part by which that takes longer than the better of it and `history=False`.",
    ]


SUITE = CaseSuite(
    name="history",
    title="Suite history: what an answer costs after changes",
    about="A query after changes beside a run from scratch, for programs of every kind.",
    sizes=Sizes, cases={program: partial(_case, program) for program in PROGRAMS}, results=Results,
    sections=_sections, notes=_notes, targets=tuple(_targets()), stated=("scale",),
    quick="--parts degree,triangles,wcc --scale 10 --repeats 1",
)  # fmt: skip
