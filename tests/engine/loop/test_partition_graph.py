"""Changes of a partition's edges, in place, against a dictionary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vertexsdk.engine.arena import Arena
from vertexsdk.engine.new_partition import NewPartition
from vertexsdk.engine.partition_graph import PartitionGraph
from vertexsdk.graph.changes.changes import ADD, CHANGE, COUNTS, REMOVE
from vertexsdk.graph.load.build_topology import (
    NO_GHOSTS,
    Chunk,
    Variant,
    build_topology,
    sort_edges,
)
from vertexsdk.graph.topology.edge_attributes import NO_FLOAT, NO_INT, no_values, pack

END = st.integers(0, 4)
CHANGE_ = st.tuples(st.sampled_from([ADD, REMOVE, CHANGE]), END, END, st.integers(0, 3))
TYPES = ["float64", "int64", "length=float64,lanes=int64"]


def values(numbers: list[int], value: str) -> Any:
    """A column of values; 0 is none, and of two attributes only the first is given by 3."""
    x = np.array(numbers, np.int64)
    real, whole = np.where(x == 0, NO_FLOAT, x), np.where(x == 0, NO_INT, x)
    if "=" not in value:
        return real if value == "float64" else whole
    return pack([real, np.where(x == 3, NO_INT, whole)])


def created(edges: dict[tuple[int, int], int], value: str) -> PartitionGraph:
    source, target = (np.array([pair[k] for pair in edges], np.int64) for k in (0, 1))
    chunk = Chunk(source, target, values([min(x, 2) for x in edges.values()], value))
    variant = Variant("out", value)
    topology = build_topology(sort_edges([chunk], variant), [NO_GHOSTS], variant)
    if topology.value is None:
        topology = replace(topology, value=no_values(topology.m, value))
    named = np.zeros(topology.n, np.bool_)
    new = NewPartition(topology, topology.m, named, None, None, None)
    graph = PartitionGraph(Arena(), "directed", 0, 1, 1, {}, value)
    graph.create(new)
    return graph


@settings(max_examples=120, deadline=None)
@given(
    st.dictionaries(st.tuples(END, END), st.integers(1, 2)), st.lists(CHANGE_, max_size=20),
    st.sampled_from(TYPES),
)  # fmt: skip
def test_edits_do_as_a_dictionary(
    edges: dict[tuple[int, int], int], changes: list[tuple[int, int, int, int]], value: str
) -> None:
    attributes = "=" in value
    model = {pair: (x, x) if attributes else (x,) for pair, x in edges.items()}
    wanted, absent = dict.fromkeys(COUNTS, 0), []
    for number, (kind, a, b, x) in enumerate(changes):
        before = model.get((a, b))
        old = before or ((1, 1) if attributes else (1,))
        new = (x or old[0], *((x if x in (1, 2) else old[1],) if attributes else ()))
        if kind == ADD and before is None:
            did = "added"
        elif before is None:
            did = "absent"
            absent.append(number)
        elif kind == REMOVE:
            did = "removed"
            del model[a, b]
        else:
            did = "unchanged" if new == old else "changed"
        if did in ("added", "changed"):
            model[a, b] = new
        wanted[did] += 1
    graph = created(edges, value)
    names = ("kind", "source", "target")
    columns = {n: np.array([c[k] for c in changes], np.int64) for k, n in enumerate(names)}
    columns["value"] = values([c[3] for c in changes], value)
    batch = graph.resolve(columns | {"kind": columns["kind"].astype(np.uint8)})
    assert (batch.counts, batch.absent) == (wanted, absent)
    graph.edit(batch)
    assert graph.vertices == len({v for pair in model for v in pair})
    ids = graph.arena["ids"]
    source, target, x = graph.edges()
    assert x is not None
    rows = zip(ids[source].tolist(), ids[target].tolist(), x.tolist(), strict=True)
    got = {(a, b): numbers_of(x) for a, b, x in rows}
    assert got == model


def numbers_of(x: Any) -> tuple[Any, ...]:
    """The number or numbers of an edge."""
    if not isinstance(x, list):
        return (x,)
    return (np.array([x[0]]).view(np.float64)[0].item(), x[1])
