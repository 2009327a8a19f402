"""A delay bound of 1 is what there was before there were others, and one partition needs none."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest

from tests.support.graphs import random_graph
from tests.support.inprocess import InProcess
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.engine.boundary import Boundary
from vertexsdk.engine.sweeps import Sweeps
from vertexsdk.program.program import Program
from vertexsdk.testing.oracles import near

# Iterations, updates and messages on two graphs, each with 1 and 3 partitions, as they were.
BEFORE = {
    "bfs": [(8, 30, 36), (9, 30, 36), (15, 29, 21), (15, 29, 21)],
    "cdlp": [(10, 106, 187), (10, 106, 187), (10, 150, 393), (10, 150, 393)],
    "degree": [(1, 16, 72), (1, 16, 72), (1, 15, 84), (1, 15, 84)],
    "kcore": [(1, 16, 32), (1, 16, 32), (1, 15, 30), (1, 15, 30)],
    "lcc": [(1, 16, 72), (1, 16, 72), (1, 15, 84), (1, 15, 84)],
    "pagerank": [(40, 640, 1468), (40, 640, 1468), (86, 1290, 1788), (86, 1290, 1788)],
    "scc": [(24, 203, 408), (24, 203, 408), (38, 206, 507), (38, 206, 507)],
    "sssp": [(10, 32, 74), (10, 32, 74), (15, 29, 41), (15, 29, 41)],
    "wcc": [(8, 45, 104), (9, 45, 104), (7, 39, 92), (8, 39, 92)],
}


@pytest.mark.parametrize("name", BEFORE)
def test_as_before(name: str) -> None:
    found = []
    for seed in (3, 8):
        g = random_graph(random.Random(seed), vertices=40, edges=120)
        program = Program(ALGORITHMS[name])
        runs = InProcess(program, g.edges, g.vertices, undirected=g.undirected)
        params: dict[str, Any] = {"origin": g.ids[0]} if name in ("sssp", "bfs") else {}
        none = mock.Mock(side_effect=AssertionError("this is for bounds above 1"))
        with mock.patch.object(Sweeps, "__init__", none), mock.patch.object(Boundary, "say", none):
            for partitions in (1, 3):
                _, total, iterations = runs.run(params, partitions=partitions, delay_bound=1)
                found.append((iterations, total.updates, total.messages))
            alone = runs.run(params, partitions=1, delay_bound=16, rng=random.Random(1))
            again = runs.run(params, partitions=1)
            assert near(alone[0], again[0], 0.0)
            assert alone[1:] == again[1:]
    assert found == BEFORE[name]
