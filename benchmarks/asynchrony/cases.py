"""The cases: each is one function of a `Context`, run in a process of its own.

Figures are seconds unless their name says otherwise; see `runs`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.asynchrony.runs import Run, graph_of, take_turns
from benchmarks.asynchrony.sizes import Sizes
from benchmarks.asynchrony.straggler import Straggler, idle, read_log, straggling
from benchmarks.case_process import CaseProcess
from benchmarks.programs import Context

Case = Callable[[Context], None]


def named(bound: str) -> str:
    """The name of a bound's figures."""
    return bound if bound == "auto" else f"B={bound}"


def paper(which: int, context: Context) -> None:
    """The paper's table 2: shortest paths, a number of partitions, by the hash of ids."""
    sizes, told = context.sizes, graph_of("rmat", context.sizes, context.cache)
    loaded, _ = context.load(told, "shortest_paths", sizes.paper_partitions[which])
    take_turns([Run(context, named(b), "shortest_paths", b, loaded, told) for b in sizes.paper])


def converging(name: str, structural: bool, context: Context) -> None:
    """Hops and time to convergence, by bound."""
    sizes, told = context.sizes, graph_of(name, context.sizes, context.cache)
    how = sizes.partitioner if structural else "hash"
    loaded, _ = context.load(told, "shortest_paths", sizes.partitions, how)
    take_turns([Run(context, named(b), "shortest_paths", b, loaded, told) for b in sizes.bounds])


def straggler(name: str, context: Context) -> None:
    """Synchronous and auto, with one partition at a time that is slow and without."""
    sizes, told = context.sizes, graph_of(name, context.sizes, context.cache)
    loaded, _ = context.load(told, "shortest_paths", sizes.partitions, sizes.partitioner)
    runs = []
    for bound in (sizes.bounds[0], sizes.bounds[-1]):
        for times, said in ((1.0, "even"), (sizes.times, "straggler")):
            title = f"{named(bound)} {said}"
            around = partial(_logged, context, title, times)
            runs.append(Run(context, title, "shortest_paths", bound, loaded, told, around))
    take_turns(runs)


@contextlib.contextmanager
def _logged(context: Context, name: str, times: float) -> Iterator[None]:
    log, sizes = context.scratch / "spells", context.sizes
    log.write_text("")
    with straggling(Straggler(sizes.partitions, times, str(log), sizes.least, sizes.turn)):
        yield
    context.note(f"{name} idle", idle(read_log(str(log))))


def cost(program: str, context: Context) -> None:
    """Everything in one partition: alone, and as one of two of which the other one is empty."""
    sizes, told = context.sizes, graph_of("rmat", context.sizes, context.cache)
    alone, _ = context.load(told, program, 1)
    ids = np.asarray(told.answer("ids"))
    beside, _ = context.load(told, program, 2, (ids, np.zeros(len(ids), np.int64)))
    runs = [
        Run(context, f"{named(b)} {where}", program, b, loaded, told, threads=sizes.cores)
        for where, loaded in (("alone", alone), ("beside", beside))
        for b in ("1", sizes.cost)
    ]
    take_turns(runs)


CASES: dict[str, Case] = {
    "a-few": partial(paper, 0),
    "a-many": partial(paper, 1),
    "b-rmat-hash": partial(converging, "rmat", False),
    "b-rmat-structure": partial(converging, "rmat", True),
    "b-grid-hash": partial(converging, "grid", False),
    "b-grid-structure": partial(converging, "grid", True),
    "c-rmat": partial(straggler, "rmat"),
    "c-grid": partial(straggler, "grid"),
    "d-shortest_paths": partial(cost, "shortest_paths"),
    "d-components": partial(cost, "components"),
}
"""By name: the part's letter, and what it is run on."""


def graphs_of(case: str) -> str:
    """The graph that a case needs."""
    return "grid" if "grid" in case else "rmat"


def slots(case: str, sizes: Sizes) -> int:
    """Tasks at once: one for each partition of the case's graphs, whose processors stay, and two
    beside them. With fewer, every iteration would be a Spark job."""
    few, many = sizes.paper_partitions
    partitions = {"a-few": few, "a-many": many, "d-shortest_paths": 3, "d-components": 3}
    return partitions.get(case, sizes.partitions) + 2


@contextlib.contextmanager
def context(process: CaseProcess, sizes: Sizes) -> Iterator[tuple[Context]]:
    """What a case is given."""
    graph = graph_of(graphs_of(process.case), sizes, process.cache)
    master = f"local[{slots(process.case, sizes)}]"
    given = Context(sizes, process.cache, process.scratch, process.note, master)
    process.ready(graph.edges, graph.origin)
    process.note("vertices", graph.vertices)
    yield (given,)
    given.spark.stop()
