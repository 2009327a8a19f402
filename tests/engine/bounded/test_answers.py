"""Answers at any delay bound are those of the oracles, and both engines go the same way."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.support.bounded import BOUNDED, draw
from vertexsdk import Graph, run
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.program.analysis.delay_bound import why_synchronous
from vertexsdk.program.program import Program
from vertexsdk.testing.oracles import near

ORIGIN = {"origin": 1}
PARAMS: dict[str, dict[str, Any]] = {
    "bfs": ORIGIN, "khop": {"k": 2}, "similarity": ORIGIN, "sssp": ORIGIN,
}  # fmt: skip


def test_which_algorithms_allow_a_bound() -> None:
    allowed = {
        name
        for name, cls in ALGORITHMS.items()
        if why_synchronous(Program(cls), Program(cls).bind(PARAMS.get(name, {}))) is None
    }
    prepared = {"forest", "leiden", "louvain", "node2vec", "truss"}  # and then send nothing
    assert allowed == {*BOUNDED, "katz", "khop", "ppr"} | prepared


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.sample(3)
def test_interpreted(name: str) -> None:
    bounds = [2, 16] if name == "pagerank" else [1, 2, 16, 1000]
    for seed, (bound, partitions) in enumerate(itertools.product(bounds, [1, 2, 7])):
        for k in range(1 if name == "pagerank" else 2):
            case = draw(random.Random(100 * seed + k), name, bound, partitions)
            got, _, _ = case.run()
            assert not case.wrong(got), (seed, k, bound, partitions)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.sample(2)
def test_compiled_does_what_interpreted_does(name: str) -> None:
    bounds = [2, 9] if name == "pagerank" else [2, 3, 16, 1000]
    for seed, (bound, partitions) in enumerate(itertools.product(bounds, [2, 7])):
        case = draw(random.Random(5000 + seed), name, bound, partitions)
        case.seed = seed if seed % 4 else None
        a, total, iterations = case.run()
        delays, hops = case.runs.delays.tolist(), case.runs.hops
        b, other, theirs = case.run(compiled="require")
        assert not case.wrong(b), seed
        assert (a, iterations, hops) == (b, theirs, case.runs.hops), seed
        assert (total.updates, total.messages) == (other.updates, other.messages), seed
        assert delays == case.runs.delays.tolist(), seed


@pytest.mark.slow
def test_blocks_of_a_large_bound() -> None:
    case = draw(random.Random(77), "pagerank", 1000, 2)
    case.params["epsilon"] = 1e-3
    got, _, _ = case.run(compiled="require")
    wanted, _, _ = case.run(delay_bound=1)
    assert all(near(got[v]["rank"], row["rank"], 1e-2) for v, row in wanted.items())


@pytest.mark.parametrize("bound", [2, 16])
def test_what_producers_sent_in_the_first_iteration_arrives(bound: int) -> None:
    """Messages of `Latest` travel once to each partition, also those before the first sweep."""
    rng = random.Random(7)
    pairs = {tuple(rng.sample(range(40), 2)) for _ in range(150)}
    source, target = zip(*sorted(pairs), strict=True)
    answers = []
    for partitions, ahead in ((1, 1), (3, bound)):
        graph = Graph.from_arrays(source, target, partitions=partitions)
        with run("kcore", graph, delay_bound=ahead, backend="memory://first-messages") as result:
            answers.append(result.to_dict())
    assert answers[0] == answers[1]
