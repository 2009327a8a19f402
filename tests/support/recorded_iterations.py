"""What loops with a history have recorded, compared with that of another loop."""

from __future__ import annotations

import numpy as np

from tests.support.drawn_loops import DrawnLoop
from vertexsdk import MainLoop
from vertexsdk.engine import loop_task
from vertexsdk.engine._history_partition import HistoryPartition

Iterations = dict[tuple[int, int], list[str]]


def recorded(main: MainLoop) -> tuple[Iterations, dict[int, int]]:
    """The entries of every vertex, also where it is a mirror, and the events by iteration."""
    key = main._history.engine._key
    entries: Iterations = {}
    events: dict[int, int] = {}
    for (loop, number), (_, part) in loop_task._partitions.items():
        if loop != key:
            continue
        assert isinstance(part, HistoryPartition)
        columns, ids = part.history.columns(), part.arena["ids"]
        for place, (start, stop) in enumerate(zip(*part.history.rows, strict=True)):
            at = np.array([place], np.int32)
            local = part.graph.mirrors.are_local(at)[0]
            used = part.arena["alive"][place] if local else part.rows_of(at)[0][0]
            if not used:
                continue
            chosen = list(columns) if local else ["at", "sent", "message"]
            rows = zip(*(columns[x][start:stop].tolist() for x in sorted(chosen)), strict=True)
            entries[int(ids[place]), -1 if local else number] = [
                str(row) for row in rows if local or row[-1]
            ]
        for at, count in part.arena.meta["events"].items():
            events[at] = events.get(at, 0) + count
    return entries, {at: count for at, count in events.items() if count}


def same_iterations(drawn: DrawnLoop) -> None:
    """Compare every iteration with those of a loop on the graph as it is now."""
    if drawn.options["strings"]:
        return  # whose codes differ
    with drawn.begun(drawn.edges, f"{drawn.url}-recorded") as other:
        other.query().close()
        assert recorded(drawn.main) == recorded(other)
