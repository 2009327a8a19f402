"""Where ghosts are one per edge, a producer's message travels once to each partition."""

from __future__ import annotations

import random

import numpy as np

from tests.support.adjacency import adjacency
from tests.support.inprocess import topologies
from tests.support.seeds import seed
from vertexsdk import Graph, run
from vertexsdk.algorithms import LabelPropagation
from vertexsdk.engine.processor import ProducerMessages


def test_each_ghost_gets_the_message_of_its_producer() -> None:
    chance = random.Random(seed())
    for _ in range(30):
        n, partitions = chance.randint(1, 30), chance.randint(2, 4)
        edges = [
            (chance.randrange(n), chance.randrange(n), 1.0) for _ in range(chance.randint(0, 3 * n))
        ]
        rows = adjacency(edges, range(n), "out", undirected=False)
        parts = topologies(rows, partitions, each=True)
        sides = [ProducerMessages(t) for t in parts]
        for p, t in enumerate(parts):
            sends = np.array([chance.random() < 0.6 for _ in range(t.n)], np.bool_)
            source = t.in_source[t.in_start[t.n : t.n + t.ghosts]]
            slots = (t.n + np.flatnonzero(sends[source])).astype(np.int32)
            messages = t.ids * 10.0
            for q, numbers, values in sides[p].outgoing(slots, messages):
                assert len(numbers) <= int(sends.sum())
                ghosts, received = sides[q].incoming(p, numbers, values)
                first, end = parts[q].inbound_start[p : p + 2].tolist()
                behind = parts[q].producers[first:end]
                wanted = [j for j, u in enumerate(behind.tolist()) if sends[t.ids.searchsorted(u)]]
                assert sorted(ghosts.tolist()) == wanted
                assert received.tolist() == (behind[ghosts] * 10.0).tolist()


def test_bytes_are_by_producer_and_not_by_edge() -> None:
    leaves = np.arange(1, 2001)
    star = Graph.from_arrays(np.zeros_like(leaves), leaves, partitions=2, undirected=True)
    with run(
        LabelPropagation, star, params={"iterations": 2}, backend="memory://star", progress=False
    ) as result:
        assert result.statistics["bytes"] < 60_000  # 89,472 with one for each edge
        assert set(result.columns()["label"].tolist()) <= {0, 1}
