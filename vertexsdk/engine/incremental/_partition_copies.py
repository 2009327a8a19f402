"""What of a partition goes elsewhere: to forks of it, and to the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.incremental._arena import Arena
from vertexsdk.engine.incremental._partition import IncrementalPartition
from vertexsdk.state.reading import NAME_COLUMNS, TOMBSTONE
from vertexsdk.state.version_writer import DeltaLayers

__all__ = ["adopt", "edges", "fork", "written"]

Array = NDArray[Any]


def fork(live: IncrementalPartition, path: Path) -> None:
    """Make a partition that stands here in another directory; both go their own way then.

    Pools of edges are shared: what is in them now stays until nobody reads it any more.
    """
    other = Arena(path, fresh=True)
    other.meta = {**live.arena.meta, "frozen": [0, 0], "shared": []}
    pools = live.adjacency.pools()
    shared = {str(live.arena.file(name)) for name in pools if name in live.arena}
    for name in live.arena.names():
        if name in pools:
            other.share(live.arena, name)
        else:
            other.put(name, live.arena[name])
    other.commit(1)
    live.arena.meta["frozen"] = list(live.adjacency.frozen())
    live.arena.meta["shared"] = sorted(shared.union(live.arena.meta["shared"]))


def adopt(live: IncrementalPartition, path: Path) -> None:
    """Stand where a fork of this partition stands."""
    other = Arena(path)
    pools = live.adjacency.pools()
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


def edges(live: IncrementalPartition) -> tuple[Array, Array, Array, Array | None]:
    """Every edge out of the partition's vertices, one without direction once.

    Returns:
        Ids of all places, how many edges are out of each, places of targets, and values or None.
    """
    t = live.v.topology
    row, at = live.adjacency.entries()
    if not live.alone:
        own = live.mirrors.are_local(row)
        row, at = row[own], at[own]
    count = np.bincount(row, minlength=t.n)
    return live.arena["ids"], count, t.target[at], None if t.value is None else t.value[at]


def written(live: IncrementalPartition) -> tuple[str, dict[str, Array]] | None:
    """The columns of a base, or of a delta of what changed since the last call, if anything."""
    a, meta = live.arena, live.arena.meta
    alive, dirty = a["alive"], a["dirty"]
    rows = np.flatnonzero(dirty)
    if not (meta["whole"] or len(rows)):
        return None
    layers = None if meta["whole"] else DeltaLayers(*meta["layers"]).add(len(rows), live.vertices)
    whole = layers is None
    if whole:
        rows = a["order"]
        rows = rows[alive[rows] != 0]
    else:
        rows = rows[np.argsort(a["ids"][rows])]
    meta |= {"whole": False, "layers": layers or DeltaLayers()}
    dirty[...] = 0
    columns = {"id": a["ids"][rows], **{n: x[rows] for n, x in live.v.states.items()}}
    if "name.code" in a:
        columns |= dict(zip(NAME_COLUMNS, live.names.packed(columns["id"]), strict=True))
    if not whole and not alive[rows].all():
        columns[TOMBSTONE] = alive[rows] == 0
    return ("base" if whole else "delta"), columns
