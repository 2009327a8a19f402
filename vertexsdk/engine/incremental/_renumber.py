"""Places given anew, to the vertices which are there: for streams of ever new ids.

Places of vertices that went are kept for when they come back, until most are of such.
"""

from __future__ import annotations

from vertexsdk.engine.incremental._partition_state import LiveState

__all__ = ["renumber", "sparse"]

SPARE = 1 << 16  # places of vertices that went which are always kept


def sparse(live: LiveState) -> bool:
    """Whether most places are of vertices that went."""
    return live.index.n > 2 * live.vertices + SPARE


def renumber(live: LiveState) -> None:
    """Give places to the vertices that are there, ascending by id, and to no others."""
    arena = live.arena
    order = arena["order"]
    places = order[arena["alive"][order] != 0]
    new = live.index.renumber(places)
    live.adjacency.renumber(places, new)
    for name in live.columns():
        arena.put(name, arena[name][places])
    pending = new[arena["pending"]]
    pending.sort()
    arena.put("pending", pending[pending >= 0])
    arena.meta |= {"whole": True, "frozen": [0, 0]}
    live.refresh_topology()
