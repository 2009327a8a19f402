"""The names of loops in a store, and which of them a new loop may replace.

A main loop has the name of its program, and a run another one, so that neither takes the place of
the other.
"""

from __future__ import annotations

from vertexsdk.errors import InputError
from vertexsdk.state import Manifest


def loop_of_run(program: str) -> str:
    """The name under which the store has the result of a run.

    >>> loop_of_run("pagerank")
    'pagerank-run'
    """
    return f"{program}-run"


def loop_of_snapshots(loop: str) -> str:
    """The name under which the store has the snapshots of a run.

    >>> loop_of_snapshots("pagerank-run")
    'pagerank-run.snapshot'
    """
    return f"{loop}.snapshot"


def acknowledged_changes(newest: Manifest | None) -> int:
    """Return the number of changes lost if another loop takes the place of this version."""
    return 0 if newest is None else newest.statistics.get("main", {}).get("received", 0)


def refuse_to_replace(newest: Manifest | None, loop: str, place: str) -> None:
    """Raise InputError if the newest version of a loop has acknowledged changes.

    Args:
        place: the location of the store.
    """
    count = acknowledged_changes(newest)
    if count:
        changes = "1 acknowledged change" if count == 1 else f"{count:,} acknowledged changes"
        raise InputError(
            f"loop {loop!r} in {place} has {changes}: go on with MainLoop.resume(...), give "
            "another loop=, or drop them with replace=True"
        )
