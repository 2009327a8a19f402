"""Main loops of every algorithm: 1, 2 and 7 partitions give the same answers after any changes."""

from __future__ import annotations

import random
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.random_changes import Edges, key_of, random_rows
from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.testing.oracles import near

FLOATS = {"pagerank": 1e-8, "lcc": 1e-12}  # by how much they may differ; all else not at all


# The others are tested on 1, 2 and 3 partitions in tests/algorithms/test_catalogue.py.
NAMES = ["bfs", "cdlp", "degree", "kcore", "lcc", "pagerank", "scc", "sssp", "wcc"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sample(2)
def test_the_number_of_partitions_changes_no_answer(name: str, tmp_path: Path) -> None:
    rng = random.Random(seed())
    strings, undirected = rng.random() < 0.5, rng.random() < 0.5
    compiled: Any = "require" if rng.random() < 0.5 else False
    ids: list[Any] = [f"n{k * 7 % 20}" if strings else k * 7 for k in range(20)]
    params = {"origin": ids[0]} if name in ("bfs", "sssp") else {}
    edges: Edges = {}
    random_rows(rng, edges, 60, undirected=undirected, vertices=ids[:14])
    edges[key_of(ids[0], ids[1], undirected=undirected)] = 1.0
    ends = [[pair[k] for pair in edges] for k in (0, 1)]
    with ExitStack() as stack:
        loops: list[MainLoop] = []
        for partitions in (1, 2, 7):
            graph = Graph.from_arrays(
                *ends, [*edges.values()], vertices=ids[:1], undirected=undirected,
                partitions=partitions,
            )  # fmt: skip
            loop = MainLoop(
                ALGORITHMS[name], graph, params=params, compiled=compiled,
                backend=f"lmdb://{tmp_path}/state", loop=f"on-{partitions}",
            )  # fmt: skip
            loops.append(stack.enter_context(loop))
        for _ in range(4):
            rows = random_rows(rng, edges, 8, undirected=undirected, vertices=ids)
            answers = []
            for main in loops:
                main.ingest(rows)
                with closing(main.query()) as answer:
                    answers.append(dict(answer.rows()))
            for other in answers[1:]:
                assert other.keys() == answers[0].keys()
                for vertex, row in answers[0].items():
                    for field, value in row.items():
                        assert near(other[vertex][field], value, FLOATS.get(name, 0.0))
