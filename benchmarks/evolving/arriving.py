"""Queries after a share of the edges has arrived: table 3 and figure 5 of the paper."""

from __future__ import annotations

from functools import partial

from benchmarks.evolving.context import Context, changes_of, pieces
from benchmarks.timing import timed
from vertexsdk import Budget


def arriving(program: str, approximating: bool, context: Context) -> None:
    """A query after 1 %, 5 %, ... of the edges have changed since the one before.

    They arrive in batches; after each the main loop approximates within a budget of seconds, or,
    as in figure 5's batch method, not at all. Both ask at the same instants of the same stream.
    As many rounds of all shares as there is time for, at least one.
    """
    sizes = context.sizes
    budget = Budget(seconds=sizes.batch_seconds) if approximating else None
    edges = context.stream.edges
    with context.main(program, budget) as main:
        main.query()
        main.ingest(changes_of(context.stream.take(sizes.changes)))
        main.query()
        context.start_clock()
        while True:
            for share in sizes.shares:
                arrived = context.stream.take(int(share * edges))
                seconds = [
                    timed(partial(main.ingest, changes))[0]
                    for changes in pieces(arrived, sizes.pieces(edges))
                ]
                query, result = timed(main.query)
                context.note(f"query {share:g}", query)
                context.note(f"ingest {share:g}", sum(seconds))
                context.note(f"last {share:g}", seconds[-1] + query)
            if context.late:
                break
        context.check(program, result)
