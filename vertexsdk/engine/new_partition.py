"""The graph that a partition begins with: its vertices, all their edges, and mirrors of the rest.

A loaded partition has the edges out of its own vertices. Where there are several, each sends the
edges to vertices of others to their owners, so every partition has the edges into its vertices too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import join_strings, take_strings
from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.compile.plan import Plan
from vertexsdk.engine.commands import CreatePartition
from vertexsdk.engine.processor import load_topology
from vertexsdk.engine.supersteps import Steps, SuperstepEnd, end_superstep
from vertexsdk.graph.load.build_topology import NO_KIND
from vertexsdk.graph.load.transpose import transpose
from vertexsdk.graph.topology.edge_attributes import no_values
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.graph.topology.topology import Topology

Array = NDArray[Any]


@dataclass(frozen=True)
class NewPartition:
    """The graph with which an `IncrementalPartition` begins.

    Attributes:
        topology: that of one partition, mirrors and their edges too; ids are codes where names are
            ids.
        edges: how many edges are out of vertices of this partition; those of an undirected graph
            count at their smaller id.
        named: bool[n], the vertices which are there without edges too.
        kind: uint8[n], the class codes of vertices; None where there are none.
        placement: placement of vertices; None is the hash.
        names: codes (int64[k], ascending) and packed names; None where ids are integers.
    """

    topology: Topology
    edges: int
    named: Array
    kind: Array | None
    placement: Placement | None
    names: tuple[Array, Array, Array] | None


def partition_of(
    plan: Plan, layout: str, partition: int, create: CreatePartition
) -> Steps[NewPartition]:
    """Bring together what a partition of a graph that is loaded begins with.

    Args:
        plan: plan of the loop.
        layout: layout of the adjacency.
        partition: its number.
        create: what is loaded.
    """
    t = load_topology(create.topologies[partition], partition)
    named, code_step, value = create.named, create.code_step, plan.program.value_dtype
    if value is not None and t.value is None:
        t = replace(t, value=no_values(t.m, value))  # of a partition without edges
    placement, names = t.placement, t.names
    if code_step is not None:
        t = replace(t, ids=(t.ids + 1) * code_step, ghost_ids=(t.ghost_ids + 1) * code_step)
        named = (named + 1) * code_step
        if placement is not None and placement.ids is not None:
            placement = replace(placement, ids=(placement.ids + 1) * code_step, key=None)
    if t.partitions > 1:
        t, names = yield from _with_mirrors(t, placement, names)
    source = np.repeat(t.ids, np.diff(t.start))
    counted = np.ones(len(source), np.bool_)
    owned = np.ones(t.n, np.bool_)
    if t.partitions > 1:
        owners = Placement(t.partitions) if placement is None else placement
        owned = owners.of(t.ids) == t.partition
        counted = np.repeat(owned, np.diff(t.start))
    if layout == "undirected":
        counted &= source <= t.ids[t.target]
    packed = None
    if code_step is not None and create.names is not None:
        packed = (np.arange(1, len(create.names[0])) * code_step, *create.names)
    elif code_step is not None and names is not None:
        packed = (t.ids[owned], *names)
    return NewPartition(
        replace(t, names=None), int(counted.sum()), np.isin(t.ids, named) & owned, t.kind,
        placement, packed,
    )  # fmt: skip


def _with_mirrors(
    t: Topology, placement: Placement | None, names: tuple[Array, Array] | None
) -> Steps[tuple[Topology, tuple[Array, Array] | None]]:
    """The edges of a partition and those into its vertices, by places of all their ends.

    Returns:
        The topology, and the names of the vertices that are the partition's own, by id.
    """
    owners = Placement(t.partitions) if placement is None else placement
    slots = np.concatenate([t.ids, t.ghost_ids])
    owner = owners.of(slots)  # codes of names may have other owners than their ranks had
    source, target = np.repeat(np.arange(t.n), np.diff(t.start)), t.target
    blocks = []
    for p in range(t.partitions):
        mine = owner == p
        some = np.flatnonzero(mine[source] | mine[target])
        used = np.zeros(len(slots), np.bool_)
        used[source[some]] = used[target[some]] = True
        place = np.cumsum(used, dtype=np.int32) - 1
        local = np.flatnonzero(mine[: t.n])
        block = {
            "ends": slots[used], "source": place[source[some]], "target": place[target[some]],
            "id": t.ids[local],
        }  # fmt: skip
        if t.value is not None:
            block["value"] = t.value[some]
        if t.kind is not None:
            block["kind"] = t.kind[local]
        if names is not None:
            block["offsets"], block["bytes"] = take_strings(*names, local)
        blocks.append((p, encode_bytes(block)))
    received, _ = yield from end_superstep(blocks, SuperstepEnd())
    parts = [decode(block, trusted=True)[0] for _, block in received]
    owned_ids = np.concatenate([p["id"] for p in parts])
    ids = np.unique(np.concatenate([owned_ids, *(p["ends"] for p in parts)]))
    n = len(ids)
    places = [np.searchsorted(ids, p["ends"]) for p in parts]
    source, target = (
        np.concatenate([at[p[end]] for at, p in zip(places, parts, strict=True)])
        for end in ("source", "target")
    )
    out = np.argsort(source << 32 | target, kind="stable")  # quick, as each part is in order
    start = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=n))]).astype(np.int64)
    ordered, none = target[out].astype(np.int32), np.zeros(0, np.int32)
    in_start, in_source = transpose(start, ordered, n, none)
    kind = None
    if t.kind is not None:
        kind = np.full(n, NO_KIND, np.uint8)
        kind[np.searchsorted(ids, owned_ids)] = np.concatenate([p["kind"] for p in parts])
    topology = Topology(
        t.partition, t.partitions, ids, start, ordered,
        t.ids[:0], np.zeros(t.partitions + 1, np.int64), none,
        np.zeros(t.partitions + 1, np.int64), in_start, in_source, kind,
        value=None if t.value is None else np.concatenate([p["value"] for p in parts])[out],
    )  # fmt: skip
    if names is not None:
        joined = join_strings([(p["offsets"], p["bytes"]) for p in parts])
        names = take_strings(*joined, np.argsort(owned_ids))
    return topology, names
