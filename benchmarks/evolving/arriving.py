"""Queries after a share of the edges has arrived: table 3 and figure 5 of the paper."""

from __future__ import annotations

from functools import partial

from benchmarks.evolving.ground import Ground, changes_of, timed
from vertexsdk.engine import Budget


def arriving(program: str, approximating: bool, ground: Ground) -> None:
    """A query after 1 %, 5 %, ... of the edges have changed since the one before.

    They arrive in batches; after each the main loop approximates within a budget of seconds, or,
    as in figure 5's batch method, not at all. Both ask at the same instants of the same stream.
    As many rounds of all shares as there is time for, at least one.
    """
    sizes = ground.sizes
    budget = Budget(seconds=sizes.batch_seconds) if approximating else None
    with ground.main(program, budget) as main:
        main.query()
        main.ingest(changes_of(ground.stream.take(sizes.changes)))
        main.query()
        ground.start_clock()
        while True:
            for share in sizes.shares:
                left, ingest = int(share * ground.stream.edges), 0.0
                while left:
                    batch = changes_of(ground.stream.take(min(left, sizes.batch)))
                    ingest += timed(partial(main.ingest, batch))[0]
                    left -= len(batch)
                seconds, result = timed(main.query)
                ground.note(f"query {share:g}", seconds)
                ground.note(f"ingest {share:g}", ingest)
                ground.note(f"iterations {share:g}", result.statistics["iterations"])
            if ground.late:
                break
        ground.check(program, result)
