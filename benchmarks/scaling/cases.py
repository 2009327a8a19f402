"""The cases: each is one function of a `Context`, run in a process of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks import graphs
from benchmarks.case_process import CaseProcess
from benchmarks.evolving import context as evolving
from benchmarks.evolving.sizes import Sizes as Evolving
from benchmarks.scaling import costs
from benchmarks.scaling.context import PROGRAMS, Context
from benchmarks.scaling.sizes import Sizes

Case = Callable[[Context], None]

MASTERS = {
    "local-1": "local[1]",
    "local-2": "local[2]",
    "cluster-1": "local-cluster[1,1,{memory}]",
    "cluster-2": "local-cluster[2,1,{memory}]",
}
"""By case: one or two cores of one process, one or two executors of one core each."""


def grown(context: Context) -> None:
    """Time against edges, in one partition; then against partitions."""
    context.warm(1)
    for scale in context.sizes.scales:
        _measured(context, "edges", scale, 1)
    divided(context)


def divided(context: Context) -> None:
    """Time against partitions, of one graph."""
    for partitions in context.sizes.partitions:
        context.warm(partitions)
        _measured(context, "partitions", context.sizes.scale, partitions)


def _measured(context: Context, what: str, scale: int, partitions: int) -> None:
    """Every program on one graph: load, run, check; then run again, and only then tell."""
    told = graphs.of_scale(scale, context.cache)
    at = told.edges if what == "edges" else partitions
    for program in PROGRAMS:
        loaded, info = context.load(told, program, partitions)
        found: list[dict[str, Any]] = []
        spent = 0.0
        while len(found) < context.sizes.repeats and (not found or spent < context.sizes.budget):
            result = context.once(program, loaded, told)
            if not found:
                context.check(program, result, told)
            found.append(result.statistics)
            spent += result.statistics["total_seconds"]
        for statistics in found:
            _tell(context, f"{what} {program}", statistics, at)
        context.note(f"{what} {program} load", info.seconds, at)
        context.note(f"{what} {program} vertices", info.num_vertices, at)
        context.note(f"{what} {program} ghosts", sum(size[2] for size in info.sizes), at)
        loaded.unpersist()


def _tell(context: Context, name: str, statistics: dict[str, Any], at: float) -> None:
    context.note(f"{name} seconds", statistics["total_seconds"], at)
    context.note(f"{name} loop", statistics["seconds"], at)
    context.note(f"{name} kernel", statistics["phases"]["kernel"], at)
    for count in ("iterations", "hops", "messages", "bytes", "worker_memory"):
        context.note(f"{name} {count}", statistics[count], at)


def changed(context: Context) -> None:
    """Time of a query against the number of changes since the one before."""
    for program in PROGRAMS:
        sizes = Evolving(scale=context.sizes.scale, cores=context.sizes.cores)
        own = evolving.Context(
            sizes, context.cache, context.scratch / program, lambda name, value: None
        )
        with own.main(program, None) as main:
            context.note(f"first {program}", evolving.timed(main.query)[0])
            main.ingest(evolving.changes_of(own.stream.take(2)))
            main.query()  # the first that goes on from an answer: it compiles what that needs
            for count in context.sizes.changes:
                _asked(context, own, main, program, count)


def _asked(context: Context, own: evolving.Context, main: Any, program: str, count: int) -> None:
    found: list[tuple[float, float, dict[str, Any]]] = []
    while len(found) < context.sizes.repeats and sum(f[1] for f in found) < context.sizes.budget:
        batch = evolving.changes_of(own.stream.take(count))
        took = evolving.timed(partial(main.ingest, batch))[0]
        seconds, result = evolving.timed(main.query)
        found.append((took, seconds, result.statistics))
    own.check(program, result)
    context.note("checked", 1)
    for took, seconds, statistics in found:
        context.note(f"ingest {program}", took, count)
        context.note(f"query {program}", seconds, count)
        context.note(f"updates {program}", statistics["updates"], count)


CASES: dict[str, Case] = {
    "local-1": grown,
    "local-2": grown,
    "cluster-1": divided,
    "cluster-2": divided,
    "changes": changed,
    "costs": costs.on_one_machine,
    "costs-driver": costs.of_the_driver,
}


def master_of(case: str, sizes: Sizes) -> str:
    """The Spark master that a case runs on."""
    if case == "costs-driver":
        case = "cluster-2"
    plain = f"local[{sizes.cores}]"
    return MASTERS.get(case, plain).format(memory=sizes.executor_memory)


def needed(cases: Sequence[str], sizes: Sizes) -> list[int]:
    """The R-MAT scales of the graphs that the cases need."""
    found: set[int] = set()
    if any(case.startswith("local-") for case in cases):
        found |= set(sizes.scales)
    if any(case in MASTERS for case in cases):
        found.add(sizes.scale)
    return sorted(found)


@contextlib.contextmanager
def context(process: CaseProcess, sizes: Sizes) -> Iterator[tuple[Context]]:
    """What a case is given."""
    given = Context(process, sizes, master_of(process.case, sizes))
    process.ready()
    yield (given,)
    given.spark.stop()
