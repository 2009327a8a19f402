"""The rules of the protocol hold in every run, and the tests see every mistake in the engine."""

from __future__ import annotations

import random

import pytest

from tests.support.bounded import BOUNDED, draw, in_chunks
from tests.support.graphs import random_graph
from tests.support.inprocess import InProcess
from tests.support.mutations import MUTATIONS, mutated
from tests.support.watching import Broken, watched
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.errors import RunError
from vertexsdk.program.program import Program
from vertexsdk.testing.oracles import disagreements, expected


def once(seed: int) -> int:
    """One run, watched: few vertices that stand in each other's way; return how many commits."""
    rng = random.Random(seed)
    n = rng.choice([10, 30])
    edges = [(rng.randrange(n), rng.randrange(n), rng.randint(1, 64) / 8) for _ in range(3 * n)]
    name = rng.choice(["wcc", "sssp"])
    bound = rng.choice([2, 3, 4, 8, 16])
    runs = InProcess(Program(ALGORITHMS[name]), edges, range(n))
    with watched(runs, bound) as watch:
        runs.run(
            {"origin": 0} if name == "sssp" else {}, partitions=rng.choice([2, 3, 4]),
            delay_bound=bound, rng=rng, max_hops=300,
        )  # fmt: skip
    return len(watch.commits)


@pytest.mark.slow
def test_rules() -> None:
    assert sum(once(seed) for seed in range(30)) > 500


@pytest.mark.parametrize("mistake", MUTATIONS)
def test_mistakes(mistake: str) -> None:
    with mutated(mistake), pytest.raises((Broken, RunError)):
        _ = [once(seed) for seed in range(30)]


@pytest.mark.parametrize("name", BOUNDED)
def test_rules_for_all_algorithms(name: str) -> None:
    for seed in range(2 if name == "pagerank" else 5):
        rng = random.Random(900 + seed)
        bound, partitions = rng.choice([2, 3, 16, 1000]), rng.choice([2, 7])
        bound = min(bound, 6) if name == "pagerank" else bound
        case = draw(rng, name, bound, partitions)
        with watched(case.runs, bound):
            state, _, _ = case.run()
        assert case.wrong(state) == [], seed


def test_partitions_do_not_wait_in_a_ring() -> None:
    """A graph on which they did while an acknowledgement held for all that came later."""
    rng = random.Random(20276)
    rng.choice([0, 1, 2])
    g = random_graph(rng, vertices=60, edges=200)
    runs = InProcess(Program(ALGORITHMS["sssp"]), g.edges, g.vertices, undirected=g.undirected)
    params = {"origin": rng.choice(g.ids)}
    with watched(runs, 1000):
        state, _, _ = runs.run(params, partitions=3, delay_bound=1000, max_hops=200)
    right = expected("sssp", g.edges, g.vertices, params, undirected=g.undirected)
    assert disagreements(right, state, 1e-6) == []


@pytest.mark.parametrize("patient", [False, True])
def test_a_chain_goes_along_its_partitions(patient: bool) -> None:
    """Each partition is told once, and gathers its part of the chain then."""
    edges = [(k, k + 1) for k in range(39)]
    runs = InProcess(Program(ALGORITHMS["bfs"]), edges)
    with watched(runs, 1000) as watch:
        got, work, _ = runs.run(
            {"origin": 0}, partitions=4, delay_bound=1000, patient=patient,
            placement=in_chunks(range(40), 4), max_hops=100,
        )  # fmt: skip
    assert [got[v]["depth"] for v in range(40)] == list(range(40))
    assert work.updates <= 40 + 39
    assert watch.last[39] >= 39
