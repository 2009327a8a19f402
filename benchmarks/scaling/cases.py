"""The cases: each is one function of a `Ground`, run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks import graphs
from benchmarks.evolving import ground as evolving
from benchmarks.evolving.sizes import Sizes as Evolving
from benchmarks.scaling import costs
from benchmarks.scaling.ground import PROGRAMS, Ground
from benchmarks.scaling.sizes import Sizes

__all__ = ["CASES", "MASTERS", "master_of", "needed"]

Case = Callable[[Ground], None]

MASTERS = {
    "local-1": "local[1]",
    "local-2": "local[2]",
    "cluster-1": "local-cluster[1,1,{memory}]",
    "cluster-2": "local-cluster[2,1,{memory}]",
}
"""By case: one or two cores of one process, one or two executors of one core each."""


def grown(ground: Ground) -> None:
    """Time against edges, in one partition; then against partitions."""
    ground.warm(1)
    for scale in ground.sizes.scales:
        _measured(ground, "edges", scale, 1)
    divided(ground)


def divided(ground: Ground) -> None:
    """Time against partitions, of one graph."""
    for partitions in ground.sizes.partitions:
        ground.warm(partitions)
        _measured(ground, "partitions", ground.sizes.scale, partitions)


def _measured(ground: Ground, what: str, scale: int, partitions: int) -> None:
    """Every program on one graph: load, run, check; then run again, and only then tell."""
    told = graphs.of_scale(scale, ground.cache)
    at = told.edges if what == "edges" else partitions
    for program in PROGRAMS:
        loaded, info = ground.load(told, program, partitions)
        found: list[dict[str, Any]] = []
        spent = 0.0
        while len(found) < ground.sizes.repeats and (not found or spent < ground.sizes.budget):
            result = ground.once(program, loaded, told)
            if not found:
                ground.check(program, result, told)
            found.append(result.statistics)
            spent += result.statistics["total_seconds"]
        for statistics in found:
            _tell(ground, f"{what} {program}", statistics, at)
        ground.note(f"{what} {program} load", info.seconds, at)
        ground.note(f"{what} {program} vertices", info.num_vertices, at)
        ground.note(f"{what} {program} ghosts", sum(size[2] for size in info.sizes), at)
        loaded.unpersist()


def _tell(ground: Ground, name: str, statistics: dict[str, Any], at: float) -> None:
    ground.note(f"{name} seconds", statistics["total_seconds"], at)
    ground.note(f"{name} loop", statistics["seconds"], at)
    ground.note(f"{name} kernel", statistics["phases"]["kernel"], at)
    for count in ("iterations", "hops", "messages", "bytes", "worker_memory"):
        ground.note(f"{name} {count}", statistics[count], at)


def changed(ground: Ground) -> None:
    """Time of a query against the number of changes since the one before."""
    for program in PROGRAMS:
        sizes = Evolving(scale=ground.sizes.scale, cores=ground.sizes.cores)
        own = evolving.Ground(
            sizes, ground.cache, ground.scratch / program, lambda name, value: None
        )
        with own.main(program, None) as main:
            ground.note(f"first {program}", evolving.timed(main.query)[0])
            main.ingest(evolving.changes_of(own.stream.take(2)))
            main.query()  # the first that goes on from an answer: it compiles what that needs
            for count in ground.sizes.changes:
                _asked(ground, own, main, program, count)


def _asked(ground: Ground, own: evolving.Ground, main: Any, program: str, count: int) -> None:
    found: list[tuple[float, float, dict[str, Any]]] = []
    while len(found) < ground.sizes.repeats and sum(f[1] for f in found) < ground.sizes.budget:
        batch = evolving.changes_of(own.stream.take(count))
        took = evolving.timed(partial(main.ingest, batch))[0]
        seconds, result = evolving.timed(main.query)
        found.append((took, seconds, result.statistics))
    own.check(program, result)
    ground.note("checked", 1)
    for took, seconds, statistics in found:
        ground.note(f"ingest {program}", took, count)
        ground.note(f"query {program}", seconds, count)
        ground.note(f"updates {program}", statistics["updates"], count)


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
