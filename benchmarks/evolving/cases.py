"""The cases: each is one function of a `Ground`, run in a process of its own.

Figures that a case notes are in seconds unless their name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.evolving.arriving import arriving
from benchmarks.evolving.ground import Ground, changes_of, timed
from benchmarks.evolving.ingesting import forking, ingesting
from benchmarks.evolving.soak import HEAP, soaking

Case = Callable[[Ground], None]


def queries(program: str, ground: Ground) -> None:
    """A query after every batch of changes. The main loop does nothing for them in between, so
    that all that they cost is in the query."""
    with ground.main(program, None) as main:
        ground.note("first", timed(main.query)[0])
        sizes = ground.sizes
        for number in range(sizes.warm + sizes.queries):
            warm = number < sizes.warm
            taken = ground.stream.take(sizes.changes)
            if not len(taken):
                break  # a file has ended
            batch = changes_of(taken)
            took = timed(partial(main.ingest, batch))[0]
            seconds, result = timed(main.query)
            if number == sizes.warm:
                ground.check(program, result)
                ground.start_clock()
            if not warm:
                ground.note("ingest", took)
                ground.note("query", seconds)
                _effort(ground, result.statistics)
            if ground.late:
                break
        ground.check(program, result)


def singles(program: str, ground: Ground) -> None:
    """A query after every single change: how many vertices it touches."""
    with ground.main(program, None) as main:
        main.query()
        batch = ground.stream.take(ground.sizes.singles)
        for number in range(ground.sizes.warm):
            main.ingest(changes_of(batch[number : number + 1]))
            main.query()
        ground.start_clock()
        done = ground.sizes.warm
        for number in range(ground.sizes.warm, len(batch)):
            main.ingest(changes_of(batch[number : number + 1]))
            seconds, result = timed(main.query)
            ground.note("query", seconds)
            ground.note("added" if batch.kind[number] == 0 else "removed", 1)
            _effort(ground, result.statistics)
            done = number + 1
            if ground.late:
                break
        main.ingest(changes_of(batch[done:]))
        ground.check(program, main.query())


def _effort(ground: Ground, statistics: dict[str, object]) -> None:
    for name in ("iterations", "updates", "touched"):
        if name in statistics:
            ground.note(name, statistics[name])
    ground.note(f"start {statistics['start']}", 1)


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
