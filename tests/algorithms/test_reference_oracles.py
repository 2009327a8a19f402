"""Every algorithm, run by the reference executor, against its oracle on random graphs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.graphs import random_graph
from tests.support.reference import reference
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.testing.oracles import disagreements, expected

CASES: list[tuple[str, dict[str, Any]]] = [
    ("bfs", {"origin": ...}),
    ("cdlp", {}),
    ("cdlp", {"iterations": 3}),
    ("degree", {}),
    ("kcore", {}),
    ("lcc", {}),
    ("pagerank", {}),
    ("pagerank", {"iterations": 7, "damping": 0.5}),
    ("pagerank", {"personalise": ...}),
    ("pagerank", {"personalise": ..., "iterations": 4}),
    ("scc", {}),
    ("sssp", {"origin": ...}),
    ("wcc", {}),
]


@pytest.mark.parametrize(("name", "params"), CASES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 25), strings=st.booleans())
@pytest.mark.sample(2)
def test_reference_agrees_with_the_oracle(
    name: str, params: dict[str, Any], seed: int, size: int, strings: bool
) -> None:
    rng = random.Random(seed)
    # scc takes complements of ids, which are codes when it is compiled.
    strings = strings and name != "scc"
    graph = random_graph(rng, vertices=size, edges=4 * size, strings=strings)
    bound = {k: rng.choice(graph.ids) if v is ... else v for k, v in params.items()}
    wanted = expected(name, graph.edges, graph.vertices, bound, undirected=graph.undirected)
    got = reference(
        ALGORITHMS[name], graph.edges, graph.vertices, bound, undirected=graph.undirected
    )
    assert not disagreements(wanted, got.state, 1e-9 if name == "pagerank" else 1e-12)
