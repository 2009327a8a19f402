"""Topologies of random graphs equal those built from the definitions, for 1, 2 and 7 partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.topologies import Edge, check, expected
from vertexsdk.graph.load.adjacency_rows import Chunk
from vertexsdk.graph.load.blocks import edge_blocks, join_rows, read_edges, row_blocks
from vertexsdk.graph.load.build_topology import (
    NO_GHOSTS,
    Variant,
    VertexTable,
    build_topology,
    edge_mode,
    sort_edges,
)
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.graph.topology.topology import Topology

SMALL = st.integers(-3, 12)
WIDE = st.integers(-(2**63), 2**63 - 1)
DIRECTIONS = ["out", "in", "both", "undirected"]


@st.composite
def graphs(draw: st.DrawFn) -> list[Edge]:
    ids = draw(st.sampled_from([SMALL, st.sampled_from(draw(st.lists(WIDE, min_size=1)))]))
    return draw(
        st.lists(st.tuples(ids, ids, st.integers(-5, 5).map(float)), min_size=1, max_size=60)
    )


def chunks_of(edges: Sequence[Edge], variant: Variant, size: int) -> list[Chunk]:
    chunks = []
    for k in range(0, len(edges), size):
        source = np.array([e[0] for e in edges[k : k + size]], np.int64)
        target = np.array([e[1] for e in edges[k : k + size]], np.int64)
        ends = np.concatenate([source, target])
        if k % 2 and ends.min() >= -(2**31) and ends.max() < 2**31:
            source, target = source.astype(np.int32), target.astype(np.int32)
        value = None
        if variant.value is not None:
            value = np.array([e[2] for e in edges[k : k + size]], variant.value)
        chunks.append(Chunk(source, target, value))
    return chunks


def build(
    edges: Sequence[Edge],
    variant: Variant,
    partitions: int,
    undirected: bool,
    multi: bool,
    vertices: Sequence[int] = (),
    threads: int = 1,
    size: int = 7,
    placement: Placement | None = None,
) -> tuple[list[Topology], int, int]:
    """Do what the tasks of a load do, without Spark."""
    named = VertexTable(np.unique(np.array(vertices, np.int64)))
    options = {"undirected": undirected, "multi": multi, "threads": threads}
    if partitions == 1:
        own = sort_edges(chunks_of(edges, variant, size), variant, extra=[named.ids], **options)
        counts = own.rows.duplicates, own.rows.self_loops
        assert own.rows.edges_read == len(edges)
        return [build_topology(own, [NO_GHOSTS], variant, vertices=named, threads=threads)], *counts
    mode = edge_mode(variant.direction, undirected)
    table, placement = placement, placement or Placement(partitions)
    half = len(edges) // 2
    arrived: list[list[bytes]] = [[] for _ in range(partitions)]
    for order in (1, 0):  # blocks come in any order
        part = edges[half:] if order else edges[:half]
        for p, block in edge_blocks(order, chunks_of(part, variant, size), placement, mode):
            arrived[p].append(block)
    rows: list[list[bytes]] = [[] for _ in range(partitions)]
    duplicates = loops = read = 0
    for p in range(partitions):
        chunks, _ = read_edges(arrived[p])
        own = sort_edges(chunks, variant, partition=p, placement=placement, **options)
        duplicates += own.rows.duplicates
        loops += own.rows.self_loops
        read += own.rows.edges_read
        for q, block in row_blocks(p, own, partitions, 0):
            rows[q].append(block)
    assert read == len(edges)
    parts = []
    for p in range(partitions):
        own, ghosts, _ = join_rows(rows[p], partitions)
        mine = named.owned_by(p, placement)
        parts.append(
            build_topology(
                own,
                ghosts,
                variant,
                partition=p,
                placement=table,
                vertices=mine,
                threads=threads,
            )
        )
    return parts, duplicates, loops


@pytest.mark.sample(6)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("direction", DIRECTIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_topology_is_as_defined(partitions: int, direction: str, data: st.DataObject) -> None:
    edges = data.draw(graphs())
    variant = Variant(
        direction,
        data.draw(st.sampled_from([None, "float64", "int64"])),
        data.draw(st.sampled_from(["combined", "each"])),
    )
    undirected, multi = data.draw(st.booleans()), data.draw(st.booleans())
    vertices = data.draw(st.lists(SMALL, max_size=3))
    want = expected(edges, variant, undirected, multi, vertices)
    ids = (
        data.draw(st.sets(st.sampled_from(sorted(want.vertices))))
        if data.draw(st.booleans())
        else None
    )
    placement = None
    if ids is not None:  # the others go by the hash
        places = data.draw(
            st.lists(st.integers(0, partitions - 1), min_size=len(ids), max_size=len(ids))
        )
        placement = Placement.of_table(
            np.array(sorted(ids), np.int64), np.array(places, np.int32), partitions
        )
    parts, duplicates, loops = build(
        edges, variant, partitions, undirected, multi, vertices, placement=placement
    )
    check(parts, want, variant)
    assert loops == want.self_loops
    assert multi or duplicates == want.duplicates


@pytest.mark.sample(2)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_threads_and_chunks_do_not_matter(direction: str) -> None:
    rng = np.random.default_rng(7)
    m = 300_000
    ends = (rng.integers(0, 1 << 14, (m, 2)) ** 2 % (1 << 15)).tolist()
    edges = [(a, b, float(k)) for k, (a, b) in enumerate(ends)]
    variant = Variant(direction, "float64")
    (one,), *counts = build(edges, variant, 1, False, False, threads=1, size=m)
    (other,), *others = build(edges, variant, 1, False, False, threads=3, size=10_007)
    assert counts == others
    columns, _ = other.to_columns()
    for name, array in one.to_columns()[0].items():
        np.testing.assert_array_equal(array, columns[name], err_msg=name)


def test_rows_of_a_larger_graph_against_numpy() -> None:
    rng = np.random.default_rng(3)
    source, target = rng.integers(0, 50_000, (2, 400_000))
    edges = [(a, b, 0.0) for a, b in zip(source.tolist(), target.tolist(), strict=True)]
    (t,), *_ = build(edges, Variant(), 1, False, False, threads=2, size=50_000)
    ids, index = np.unique(np.concatenate([source, target]), return_inverse=True)
    pairs = np.unique(index.reshape(2, -1), axis=1)
    np.testing.assert_array_equal(t.ids, ids)
    np.testing.assert_array_equal(np.repeat(np.arange(t.n), np.diff(t.start)), pairs[0])
    np.testing.assert_array_equal(t.target, pairs[1])
