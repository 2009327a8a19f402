"""Which vertices leave a partition: neighbourhoods, from where they border on the new place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import resident
from vertexsdk.balance import Transfer
from vertexsdk.jit import njit
from vertexsdk.partition import Topology

__all__ = ["choose", "chosen"]

Chosen = tuple[NDArray[np.int64], NDArray[np.int32]]


def chosen(t: Topology, transfers: Sequence[Transfer]) -> Chosen:
    """Return the ids (int64[k]) which are to leave a partition, and where each goes (int32[k]).

    For each transfer vertices are taken breadth first, each search from a vertex that is joined to
    the new place, then from any other, until they and their edges make up the share. A vertex which
    is more than what is missing stays.
    """
    weight = 1 + t.stop - t.start[: t.n]
    total = float(weight.sum())
    taken = np.full(t.n, -1, np.int32)
    grow: Any = _grow
    for move in transfers:
        if move.source == t.partition:
            roots = np.concatenate([_bordering(t, move.target), np.arange(t.n)]).astype(np.int64)
            rows = t.start, t.target, t.in_start, t.in_source
            grow(*rows, roots, weight, move.share * total, move.target, taken)
    left = np.flatnonzero(taken >= 0)
    return t.ids[left], taken[left]


def choose(run: str, version: int, transfers: Sequence[Transfer], partition: int) -> Chosen | None:
    """Call `chosen` in a task, for a version of a run; None if this host has lost it."""
    if all(move.source != partition for move in transfers):
        return np.empty(0, np.int64), np.empty(0, np.int32)
    held = resident.open(f"{run}/p{partition}-v{version}")  # as `Processor.save` named it
    graph = None if held is None else resident.open(held[1]["topology"])
    return None if graph is None else chosen(Topology.from_columns(*graph), transfers)


def _bordering(t: Topology, other: int) -> NDArray[np.int64]:
    """The vertices which are joined to some of partition `other`."""
    first, last = t.n + t.ghost_start[other], t.n + t.ghost_start[other + 1]
    out = t.in_source[t.in_start[first] : t.in_start[last]]
    into = t.inbound[t.inbound_start[other] : t.inbound_start[other + 1]]
    found = np.zeros(t.n, np.bool_)
    found[out] = found[into] = True
    return np.flatnonzero(found)


@njit
def _grow(start, target, in_start, in_source, roots, weight, amount, to, taken):  # type: ignore[no-untyped-def]
    """Take vertices for `to` while there is room; `taken` says where each goes, -1 if it stays."""
    n = len(taken)
    queue = np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    for root in roots:
        if seen[root] or taken[root] >= 0:
            continue
        seen[root] = True
        queue[0] = root
        done, reached = 0, 1
        while done < reached:
            v = queue[done]
            done += 1
            if amount < 2:  # not even a vertex with one edge
                return
            if weight[v] > amount:
                continue
            taken[v] = to
            amount -= weight[v]
            for k in range(start[v], start[v + 1]):
                u = target[k]
                if u < n and not seen[u] and taken[u] < 0:
                    seen[u] = True
                    queue[reached] = u
                    reached += 1
            for k in range(in_start[v], in_start[v + 1]):
                u = in_source[k]
                if u < n and not seen[u] and taken[u] < 0:
                    seen[u] = True
                    queue[reached] = u
                    reached += 1
