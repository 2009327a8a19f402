"""A query after some changes, beside doing it from scratch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.answers import Wrong
from benchmarks.evolving.context import Context, changes_of
from benchmarks.evolving.sizes import Sizes
from benchmarks.guard.comparing import Comparison
from benchmarks.guard.timing import in_turns, seconds
from benchmarks.peers.ours import Ours

SCALE, CHANGES, ROUNDS = 16, 200, 8


def queries(ours: Ours, cache: Path, scratch: Path, cores: int) -> list[Comparison]:
    """Shortest paths on R-MAT 16 without parallel edges, by a main loop and by `run`."""
    context = Context(Sizes(scale=SCALE, cores=cores), cache, scratch / "queries", _quiet)
    problem = None
    with context.main("shortest_paths", None) as main:
        run = _from_scratch(ours, context)

        def query() -> float:
            main.ingest(changes_of(context.stream.take(CHANGES)))
            return seconds(main.query)

        sides = [query, run]
        in_turns(2, sides)
        least = in_turns(ROUNDS, sides)
        try:
            context.check("shortest_paths", main.query())
        except Wrong as wrong:
            problem = f"wrong answer of ours: {wrong}"
    title = f"query after {CHANGES} changes, shortest paths"
    return [Comparison(title, "run() from scratch", least, problem)]


def _quiet(name: str, value: object) -> None:
    return None


def _from_scratch(ours: Ours, context: Context) -> Callable[[], float]:
    graph = ours.Graph.read(ours.spark, edges=context.stream.parquet, partitions=1)
    graph.materialise(("out", "float64", "combined"))
    params = {"origin": context.stream.origin}

    def run() -> float:
        return seconds(lambda: ours._result("shortest_paths", graph, params))

    return run
