"""What a load should give, built with dictionaries straight from the definitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from vertexsdk.graph.load.build_topology import Variant
from vertexsdk.graph.topology.topology import Topology

__all__ = ["Edge", "Expected", "check", "expected"]

Edge = tuple[int, int, float]
Entry = tuple[int, bool, float]  # target id, reverse, value


@dataclass
class Expected:
    """The rows of a whole graph, and what should be reported."""

    rows: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    vertices: set[int] = field(default_factory=set)
    duplicates: int = 0
    self_loops: int = 0


def expected(
    edges: Sequence[Edge],
    variant: Variant,
    undirected: bool,
    multi: bool,
    vertices: Sequence[int] = (),
) -> Expected:
    """Build the rows of a graph from its definition."""
    out = Expected(vertices={*vertices, *(e[0] for e in edges), *(e[1] for e in edges)})

    def pair(a: int, b: int) -> tuple[int, int]:
        return (b, a) if undirected and b < a else (a, b)

    distinct = {pair(a, b) for a, b, _ in edges}
    out.duplicates = 0 if multi else len(edges) - len(distinct)
    out.self_loops = len({a for a, b, _ in edges if a == b})
    as_set = variant.direction == "undirected"
    entries: list[tuple[int, int, bool, float]] = []
    if as_set and not undirected:  # the value of the edge from the smaller id counts
        edges = sorted(edges, key=lambda edge: edge[0] < edge[1])
    for a, b, v in edges:
        if undirected or as_set:
            entries.append((a, b, False, v))
            if a != b:
                entries.append((b, a, False, v))
        elif variant.direction == "both":
            entries += [(a, b, False, v), (b, a, True, v)]
        else:
            entries.append((a, b, False, v) if variant.direction == "out" else (b, a, False, v))
    if as_set:
        entries = [e for e in entries if e[0] != e[1]]
    if as_set or not multi:
        last = {(a, b, r): v for a, b, r, v in entries}
        entries = [(a, b, r, v) for (a, b, r), v in last.items()]
    for a, b, r, v in entries:
        out.rows[a].append((b, r, v))
    for row in out.rows.values():
        row.sort(key=lambda e: (e[0], e[1]))
    return out


def check(parts: Sequence[Topology], want: Expected, variant: Variant) -> None:
    """Compare the topologies of all partitions with what they should be, in every array."""
    partitions = len(parts)
    seen: list[int] = []
    for p, t in enumerate(parts):
        ids = t.ids.tolist()
        assert (t.partition, t.partitions) == (p, partitions)
        assert ids == sorted(set(ids))
        assert (t.owners(t.ids) == p).all()
        seen += ids
        slots = ids + t.ghost_ids.tolist()
        assert (len(t.start), t.start[0], t.start[-1]) == (t.n + 1, 0, t.m)
        for u, vertex in enumerate(ids):
            row = [
                (
                    slots[t.target[e]],
                    bool(t.reverse[e]) if t.reverse is not None else False,
                    float(t.value[e]) if t.value is not None else 0.0,
                )
                for e in range(t.start[u], t.start[u + 1])
            ]
            wanted = [(b, r, v if variant.value else 0.0) for b, r, v in want.rows.get(vertex, [])]
            assert row == wanted, (vertex, row, wanted)
        _check_ghosts(t, parts, variant)
        _check_transposed(t)
    assert sorted(seen) == sorted(want.vertices)


def _check_ghosts(t: Topology, parts: Sequence[Topology], variant: Variant) -> None:
    remote = [
        (int(s), u) for u in range(t.n) for s in t.target[t.start[u] : t.start[u + 1]] if s >= t.n
    ]
    assert t.remote == len(remote)
    assert t.boundary.tolist() == sorted({u for _, u in remote})
    ghosts = t.ghost_ids.tolist()
    owners = t.owners(t.ghost_ids).tolist()
    bounds = t.ghost_start.tolist()
    for q in range(t.partitions):
        assert all(o == q for o in owners[bounds[q] : bounds[q + 1]])
    if variant.ghosts == "combined":
        assert sorted({s for s, _ in remote}) == list(range(t.n, t.n + t.ghosts))
        assert len(set(ghosts)) == len(ghosts)
        order = [(o, i, 0) for o, i in zip(owners, ghosts, strict=True)]
    else:
        assert sorted(s for s, _ in remote) == list(range(t.n, t.n + t.ghosts))
        source = dict(remote)
        order = [(owners[k], ghosts[k], source[t.n + k]) for k in range(t.ghosts)]
    assert order == sorted(order)
    for q, other in enumerate(parts):
        mine = t.ids[t.inbound[t.inbound_start[q] : t.inbound_start[q + 1]]]
        theirs = other.ghost_ids[
            other.ghost_start[t.partition] : other.ghost_start[t.partition + 1]
        ]
        assert mine.tolist() == theirs.tolist()


def _check_transposed(t: Topology) -> None:
    rows: list[list[int]] = [[] for _ in range(t.n + t.ghosts)]
    for u in range(t.n):
        for s in t.target[t.start[u] : t.start[u + 1]]:
            rows[s].append(u)
    for j, s in enumerate(t.inbound):
        rows[s].append(t.n + j)
    assert t.in_start.tolist() == [0, *accumulate(map(len, rows))]
    assert t.in_source.tolist() == [u for row in rows for u in row]
