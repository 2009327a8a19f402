"""A mirror that had no target for a while is not believed when it has one again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import ShortestPaths
from vertexsdk.graph.topology.placement import Placement

# By the hash of ids, 2 is in one of two partitions, and all others are in the other one.
BATCHES: list[list[Any]] = [
    [("-", 2, 4)],
    [("+", 0, 2, 3.0), ("-", 0, 4)],  # 4 loses its value, and has no edge to tell of
    [("+", 2, 4, 1.0), ("-", 0, 2)],  # 2 must not take what 4 had
]


@pytest.mark.parametrize("compiled", [False, "require"])
@pytest.mark.parametrize("between", [False, True])
def test_a_value_that_was_lost_meanwhile(compiled: Any, between: bool) -> None:
    owners = Placement(2).of(np.array([0, 2, 3, 4]))
    assert len(set(owners[[0, 2, 3]].tolist())) == 1
    assert owners[1] != owners[0]
    graph = Graph.from_arrays([3, 0, 2], [4, 4, 4], [2.0, 1.0, 4.0], undirected=True, partitions=2)
    url = f"memory://again-{compiled}-{between}"
    with MainLoop(
        ShortestPaths, graph, params={"origin": 0}, backend=url, compiled=compiled
    ) as main:
        assert main.query().to_dict() == {0: 0.0, 2: 5.0, 3: 3.0, 4: 1.0}
        for batch in BATCHES:
            main.ingest(batch)
            if between:
                main.query().close()
        inf = float("inf")
        assert main.query().to_dict() == {0: 0.0, 2: inf, 3: inf, 4: inf}
