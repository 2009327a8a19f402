"""A producer that comes to prepare after a later one, of the same consumer, is not put off."""

from __future__ import annotations

import pytest

from tests.support.inprocess import InProcess
from tests.support.reference import reference
from vertexsdk.algorithms import ShortestPaths
from vertexsdk.program.program import Program

# 17 and 4 are consumers of each other in different partitions, 20 is another producer of 4.
EDGES = [
    (44, 17, 19), (0, 36, 33), (20, 4, 42), (0, 9, 1), (10, 22, 22), (4, 17, 43), (0, 10, 38),
    (44, 16, 56), (9, 20, 79), (0, 44, 43), (10, 4, 6), (36, 17, 86), (17, 4, 57), (9, 36, 74),
]  # fmt: skip


@pytest.mark.parametrize("partitions", [3, 4])
def test_an_earlier_producer_asks_again(partitions: int):
    graph = InProcess(Program(ShortestPaths), EDGES)
    state, *_ = graph.run({"origin": 0}, partitions=partitions, delay_bound=256, max_hops=100)
    told = reference(ShortestPaths, EDGES, params={"origin": 0}).values("length")
    assert {v: row["length"] for v, row in state.items()} == told
