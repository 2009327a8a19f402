"""The cases: each is one function of a `Context`, run in a process of its own.

Figures that a case notes are in seconds unless their name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.case_process import CaseProcess
from benchmarks.evolving.arriving import arriving
from benchmarks.evolving.context import Context, changes_of
from benchmarks.evolving.ingesting import forking, ingesting
from benchmarks.evolving.sizes import Sizes
from benchmarks.evolving.soak import HEAP, soaking
from benchmarks.timing import timed

MODULE = __name__
Case = Callable[[Context], None]


def queries(program: str, context: Context) -> None:
    """A query after every batch of changes. The main loop does nothing for them in between, so
    that all that they cost is in the query."""
    with context.main(program, None) as main:
        context.note("first", timed(main.query)[0])
        sizes = context.sizes
        for number in range(sizes.warm + sizes.queries):
            warm = number < sizes.warm
            taken = context.stream.take(sizes.changes)
            if not len(taken):
                break  # a file has ended
            batch = changes_of(taken)
            took = timed(partial(main.ingest, batch))[0]
            seconds, result = timed(main.query)
            if number == sizes.warm:
                context.check(program, result)
                context.start_clock()
            if not warm:
                context.note("ingest", took)
                context.note("query", seconds)
                _effort(context, result.statistics)
            if context.late:
                break
        context.check(program, result)


def singles(program: str, context: Context) -> None:
    """A query after every single change: how many vertices it touches."""
    with context.main(program, None) as main:
        main.query()
        batch = context.stream.take(context.sizes.singles)
        for number in range(context.sizes.warm):
            main.ingest(changes_of(batch[number : number + 1]))
            main.query()
        context.start_clock()
        done = context.sizes.warm
        for number in range(context.sizes.warm, len(batch)):
            main.ingest(changes_of(batch[number : number + 1]))
            seconds, result = timed(main.query)
            context.note("query", seconds)
            context.note("added" if batch.kind[number] == 0 else "removed", 1)
            _effort(context, result.statistics)
            done = number + 1
            if context.late:
                break
        main.ingest(changes_of(batch[done:]))
        context.check(program, main.query())


def _effort(context: Context, statistics: dict[str, object]) -> None:
    for name in ("iterations", "updates", "touched"):
        if name in statistics:
            context.note(name, statistics[name])
    context.note(f"start {statistics['start']}", 1)


CASES: dict[str, Case] = {
    "a-shortest_paths": partial(queries, "shortest_paths"),
    "a-components": partial(queries, "components"),
    "b-pagerank": partial(queries, "pagerank"),
    "c-shortest_paths": partial(arriving, "shortest_paths", True),
    "c-shortest_paths-batch": partial(arriving, "shortest_paths", False),
    "c-pagerank": partial(arriving, "pagerank", True),
    "c-pagerank-batch": partial(arriving, "pagerank", False),
    "d-shortest_paths": partial(ingesting, "shortest_paths"),
    "e-shortest_paths": partial(singles, "shortest_paths"),
    "f-shortest_paths": partial(forking, "shortest_paths"),
    "g-shortest_paths": partial(soaking, "shortest_paths"),
}
"""By name: the part's letter, the program, and what else."""

CONF = {"g-shortest_paths": HEAP}
"""Settings of the Spark session that a case needs."""


def run_case(process: CaseProcess) -> None:
    """Do one case."""
    sizes, conf = process.sizes(Sizes), CONF.get(process.case)
    context = Context(sizes, process.cache, process.scratch, process.note, conf)
    process.ready(context.stream.edges, context.stream.origin)
    with process.measuring():
        CASES[process.case](context)
    context.spark.stop()
