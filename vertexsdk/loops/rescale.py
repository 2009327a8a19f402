"""`vertexsdk state rescale`: have a main loop go on with another number of partitions.

A snapshot is read by any number of partitions, each of which takes its own vertices. So a version
that says with how many to go on is all that is to be written.
"""

from __future__ import annotations

from dataclasses import replace

from vertexsdk.loops._ledger import Ledger
from vertexsdk.loops.arguments import check_partitions
from vertexsdk.state import Store


def rescale(store: Store, loop: str, partitions: int) -> int:
    """Commit a version of a main loop that is resumed with so many partitions.

    Args:
        loop: of which no process is the owner now; one that is gets a `FencedError`.

    Returns:
        The number that it had before.

    Raises:
        StateInputError: there is no such loop.
        InputError: it is no main loop, or the number is below 1.
    """
    check_partitions(partitions)
    ledger = Ledger.read(store.version(loop))
    store.claim(loop)
    manifest = store.version(loop)  # its owner may have committed since
    ledger = Ledger.read(manifest)
    before = ledger.partitions or manifest.partitions
    store.commit(
        loop,
        iteration=manifest.iteration + 1,
        segments=[],
        parent=manifest,
        aggregates=manifest.aggregates,
        statistics={**manifest.statistics, **replace(ledger, partitions=partitions).statistics()},
        offsets=manifest.offsets,
    )
    return before
