"""Vertices moved between partitions while a program runs: when, which, and with no other result."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.algorithms.test_engine_parity import Case, always, pure
from vertexsdk.algorithms import ConnectedComponents, Coreness, PageRank, ShortestPaths
from vertexsdk.balance import Balance, Balancer, Transfer, imbalance
from vertexsdk.chunks import chosen
from vertexsdk.graph import Graph
from vertexsdk.placement import Placement
from vertexsdk.program import Program
from vertexsdk.results import read
from vertexsdk.running import run
from vertexsdk.testing.inprocess import InProcess, topologies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Restless(Balancer):
    """Moves some vertices after every iteration, whatever the load is."""

    def saw(self, loads: Sequence[int], seconds: float) -> list[Transfer]:
        super().saw(loads, seconds)
        rng = random.Random(self.seen)
        ways = [(p, q) for p in range(self.partitions) for q in range(self.partitions) if p != q]
        return [Transfer(p, q, rng.uniform(0.1, 0.6)) for p, q in rng.sample(ways, 2)]

    def moved(self, iteration: int, vertices: int, seconds: float = 0.0) -> None:
        super().moved(iteration, vertices, seconds)
        self.stopped = False


@pytest.mark.parametrize(("make", "seeds"), [(pure, 6), (always, 12)])
@pytest.mark.parametrize("forget", [False, True])
def test_moves_after_every_iteration(make: Any, seeds: int, forget: bool, tmp_path: Path) -> None:
    moved = 0
    for seed in range(400, 400 + seeds):
        case = Case(make, seed, tmp_path)
        still, runs = case.in_process(), case.in_process()
        runs.balancer = partial(Restless, Balance(hops=1))
        for partitions in (2, 5):
            _, _, iterations = still.run(case.params, partitions=partitions)
            got, _, same = runs.run(case.params, partitions=partitions, forget=forget)
            case.check(got, "moved", seed, partitions)
            assert abs(same - iterations) <= 1
            moved += sum(m["vertices"] for m in runs.mover.balancer.moves)
    assert moved > 5 * seeds


def road(length: int) -> list[tuple[int, int, float]]:
    """A long grid of three lanes, and a street into which all of the middle lead."""
    ids = np.arange(3 * length).reshape(length, 3).tolist()
    along = [(a, b) for row, more in pairwise(ids) for a, b in zip(row, more, strict=True)]
    across = [(a, b) for row in ids for a, b in pairwise(row)]
    middle = [(row[1], 3 * length) for row in ids]
    return [(a, b, 1.0 + (a * 7 + b) % 5) for a, b in along + across + middle]


PROGRAMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sssp": (ShortestPaths, {"origin": 0}),
    "pagerank": (PageRank, {"iterations": 9}),
    "kcore": (Coreness, {}),
    "wcc": (ConnectedComponents, {}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_move_too(name: str) -> None:
    program, params = PROGRAMS[name]
    runs = InProcess(Program(program), road(20))
    for partitions in (2, 7):
        runs.balancer = None
        want, total, iterations = runs.run(params, partitions=partitions, compiled="require")
        runs.balancer = partial(Restless, Balance(hops=1))
        got, moving, same = runs.run(params, partitions=partitions, compiled="require")
        assert same == iterations
        assert (moving.updates, moving.messages) == (total.updates, total.messages)
        assert runs.mover is not None
        assert sum(m["vertices"] for m in runs.mover.balancer.moves) > 30
        for v, state in want.items():
            assert got[v] == pytest.approx(state, rel=1e-12), v


def crowded(graph: Sequence[tuple[int, int, float]], partitions: int) -> Placement:
    """Nine of ten vertices are in partition 0."""
    ids = np.unique([v for a, b, _ in graph for v in (a, b)]).astype(np.int64)
    return Placement.of_table(ids, np.where(ids % 10, 0, ids // 10 % partitions), partitions)


@pytest.mark.parametrize("partitions", [2, 4])
def test_a_crowded_partition_is_relieved(partitions: int) -> None:
    graph = road(60)
    runs = InProcess(Program(PageRank), graph)
    where = crowded(graph, partitions)
    params = {"iterations": 20}
    want, _, iterations = runs.run(params, partitions=partitions, placement=where)
    runs.balancer = partial(Balancer, Balance(overhead=0.0, per_unit=0.0))
    got, _, same = runs.run(params, partitions=partitions, placement=where)
    assert runs.mover is not None
    (move,) = runs.mover.statistics()["moves"]
    assert move["before"] > (1.7 if partitions == 2 else 3)
    assert move["after"] < 1.15
    assert move["iteration"] == 3
    assert runs.mover.statistics()["imbalance"] == pytest.approx(move["after"], rel=0.05)
    assert same == iterations
    assert all(got[v] == pytest.approx(state, rel=1e-12) for v, state in want.items())


def hops(balancer: Balancer, loads: list[int], count: int, seconds: float = 1.0) -> list[Any]:
    return [balancer.saw(loads, seconds) for _ in range(count)]


def test_a_balanced_load_stays() -> None:
    balancer = Balancer(Balance(overhead=0.0), 4, 10)
    assert not any(hops(balancer, [10, 12, 9, 19], 50))
    assert balancer.imbalance == pytest.approx(1.52)
    assert imbalance([0, 0]) == 1
    assert not any(hops(Balancer(Balance(), 2, 10), [74, 26], 50))


def test_what_is_above_the_mean_goes_to_what_is_below() -> None:
    balancer = Balancer(Balance(hops=3, overhead=0.0), 4, 10)
    first, second, third = hops(balancer, [10, 0, 90, 20], 3)
    assert (first, second) == ([], [])
    assert third == [
        Transfer(2, 1, pytest.approx(30 / 90)),
        Transfer(2, 0, pytest.approx(20 / 90)),
        Transfer(2, 3, pytest.approx(10 / 90)),
    ]


def test_the_last_hops_count_and_not_one_of_them() -> None:
    balancer = Balancer(Balance(hops=4, overhead=0.0), 3, 10)
    turns = [[90, 5, 5], [5, 90, 5], [5, 5, 90]]
    assert not any(balancer.saw(turns[k % 3], 1.0) for k in range(40))


def test_a_move_must_save_what_it_costs() -> None:
    policy = Balance(hops=4, overhead=2.0, per_unit=1e-6)
    balancer = Balancer(policy, 4, 1_000_000)
    # Each hop of 0.5 s would save three quarters of that; a move costs 3 s.
    moves = hops(balancer, [100, 0, 0, 0], 9, seconds=0.5)
    assert [bool(m) for m in moves] == [False] * 7 + [True] * 2
    assert not any(hops(Balancer(policy, 4, 1_000_000), [100, 0, 0, 0], 100, seconds=0.01))
    # On two cores it would save half, on one core nothing.
    moves = hops(Balancer(policy, 4, 1_000_000, slots=2), [100, 0, 0, 0], 13, seconds=0.5)
    assert [bool(m) for m in moves] == [False] * 11 + [True] * 2
    assert not any(hops(Balancer(policy, 4, 1_000_000, slots=1), [100, 0, 0, 0], 99))


def test_a_move_that_helped_nothing_is_the_last() -> None:
    balancer = Balancer(Balance(hops=2, overhead=0.0), 3, 10)
    assert hops(balancer, [90, 0, 0], 2)[-1]
    balancer.moved(7, 12)
    assert not any(hops(balancer, [90, 0, 1], 9))
    (move,) = balancer.moves
    assert (move["iteration"], move["vertices"], move["before"]) == (7, 12, 3)
    assert move["after"] == pytest.approx(90 * 3 / 91)
    nothing = Balancer(Balance(hops=2, overhead=0.0), 3, 10)
    assert hops(nothing, [90, 0, 0], 2)[-1]
    nothing.moved(2, 0)  # as no vertex was light enough
    assert nothing.moves == []
    assert not any(hops(nothing, [90, 0, 0], 9))


def test_neighbourhoods_move_and_the_heaviest_vertex_stays() -> None:
    program = Program(ShortestPaths)
    runs = InProcess(program, [*road(30), *((90, k, 1.0) for k in range(90))])
    everything = Placement.of_table(np.arange(91), np.where(np.arange(91) < 3, 1, 0), 2)
    t, _ = topologies(runs.rows, 2, each=False, placement=everything)
    ids, to = chosen(t, [Transfer(0, 1, 0.25), Transfer(1, 0, 1.0)])
    assert (to == 1).all()
    assert 90 not in ids
    assert ids.max() < 60  # from where the two meet
    weight = 1 + np.diff(t.start)
    share = weight[np.isin(t.ids, ids)].sum() / weight.sum()
    assert 0.2 < share <= 0.25
    assert len(chosen(t, [Transfer(1, 0, 1.0)])[0]) == 0


@pytest.mark.parametrize("ids", ["int", "str"])
def test_on_spark(spark: SparkSession, tmp_path: Path, ids: str) -> None:
    graph_, exchange = road(30), "driver" if ids == "int" else "shuffle"
    names: list[Any] = [v if ids == "int" else f"v{v}" for v in range(91)]
    source, target = [names[a] for a, _, _ in graph_], [names[b] for _, b, _ in graph_]
    where = {names[v]: 0 if v % 10 else 1 for v in range(91)}
    answers = []
    for balance in (False, Balance(hops=2, overhead=0.0, per_unit=0.0)):
        graph = Graph.from_arrays(source, target, spark=spark, partitions=3, partitioner=where)
        result = run(
            PageRank, graph, params={"iterations": 8}, backend=f"lmdb://{tmp_path}/s",
            commit_every=2, balance=balance, exchange=exchange,
        )  # fmt: skip
        graph.unpersist()
        versions = [dict(read(result.backend, result.loop, at).rows()) for at in range(2, 9, 2)]
        some = result.lookup([source[0], target[-1]])
        assert some == {v: versions[-1][v] for v in some}
        assert len(some) == 2
        answers.append((versions, result.statistics))
    (still, before), (moved, after) = answers
    assert before["moves"] == []
    (move,) = after["moves"]
    assert move["before"] > 2.5
    assert move["after"] < 1.3
    assert move["vertices"] > 30
    for name in ("iterations", "updates", "messages", "hops", "reason"):
        assert after[name] == before[name], name
    for one, other in zip(still, moved, strict=True):
        assert one.keys() == other.keys()
        assert all(other[v]["rank"] == pytest.approx(one[v]["rank"], rel=1e-12) for v in one)
