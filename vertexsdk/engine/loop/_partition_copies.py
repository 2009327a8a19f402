"""Forks of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from vertexsdk.engine.loop._arena import Arena
from vertexsdk.engine.loop._loop_partition import LoopPartition

Array = NDArray[Any]


def fork(live: LoopPartition, path: Path) -> None:
    """Make a partition that stands here in another directory; both go their own way then.

    Pools of edges are shared: what is in them now stays until nobody reads it any more.
    """
    other = Arena(path, fresh=True)
    other.meta = {**live.arena.meta, "frozen": [0, 0], "shared": []}
    other.meta["settled"] &= not live.plan.program.reads_loop  # whose branches do other work
    pools = live.graph.adjacency.pools()
    shared = {str(live.arena.file(name)) for name in pools if name in live.arena}
    for name in live.arena.names():
        if name in pools:
            other.share(live.arena, name)
        else:
            other.put(name, live.arena[name])
    other.commit(1)
    live.arena.meta["frozen"] = list(live.graph.adjacency.frozen())
    live.arena.meta["shared"] = sorted(shared.union(live.arena.meta["shared"]))


def adopt(live: LoopPartition, path: Path) -> None:
    """Stand where a fork of this partition stands."""
    other = Arena(path)
    pools = live.graph.adjacency.pools()
    kept = {name: live.arena.meta[name] for name in ("files", "frozen", "shared")}
    for name in other.names():
        if name not in pools:
            live.arena.put(name, other[name])
        elif other.owns(name):
            values = other[name]
            live.arena.replace(name, len(values))[...] = values
    live.arena.meta = {**other.meta, **kept, "whole": True}
    other.close()
    live.refresh()
