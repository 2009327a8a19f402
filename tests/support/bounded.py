"""Runs with a delay bound, drawn at random: algorithm, graph, placement, bound, order of hops."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.graphs import SmallGraph, random_graph
from tests.support.inprocess import InProcess
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.program.program import Program
from vertexsdk.testing.oracles import disagreements, expected

__all__ = ["BOUNDED", "Drawn", "draw", "in_chunks", "turns"]

BOUNDED = ("bfs", "degree", "kcore", "pagerank", "sssp", "wcc")  # allow a bound above 1


@dataclass
class Drawn:
    """A built-in algorithm on a small graph, and how to run it.

    Attributes:
        how: the arguments of `InProcess.run`, but for `rng` and `compiled`.
        seed: of the order in which partitions take turns; None: all of them in each hop.
    """

    name: str
    graph: SmallGraph
    params: dict[str, Any]
    how: dict[str, Any]
    seed: int | None
    runs: InProcess = field(init=False)

    def __post_init__(self) -> None:
        g = self.graph
        program = Program(ALGORITHMS[self.name])
        self.runs = InProcess(program, g.edges, g.vertices, undirected=g.undirected)

    def run(self, **changed: Any) -> tuple[dict[int, dict[str, Any]], Any, int]:
        """Run it, with some arguments changed."""
        return self.runs.run(self.params, rng=turns(self.seed), **{**self.how, **changed})

    def wrong(self, got: dict[int, dict[str, Any]]) -> list[str]:
        """What is not as the oracle says."""
        g = self.graph
        wanted = expected(self.name, g.edges, g.vertices, self.params, undirected=g.undirected)
        return disagreements(wanted, got, 1e-6)


def turns(seed: int | None) -> random.Random | None:
    """The order of hops that a seed stands for."""
    return None if seed is None else random.Random(seed)


def in_chunks(ids: Sequence[int], partitions: int) -> Placement:
    """Place ids that are next to each other in the same partition; some may be left empty."""
    where = np.arange(len(ids)) * partitions // max(len(ids), 1)
    return Placement.of_table(np.array(ids, np.int64), where, partitions)


def draw(rng: random.Random, name: str, bound: int, partitions: int) -> Drawn:
    """Draw a run; the same for the same state of `rng`."""
    # PageRank goes by blocks of as many sweeps as the bound says, so it costs more.
    large = rng.random() < 0.3 and name != "pagerank"
    graph = random_graph(rng, vertices=40 if large else 12, edges=120 if large else 30)
    params: dict[str, Any] = {}
    if name in ("sssp", "bfs"):
        params["origin"] = rng.choice(graph.ids)
    if name == "pagerank":
        params["epsilon"] = 1e-7
    how = {
        "partitions": partitions, "delay_bound": bound, "patient": rng.random() < 0.4,
        "max_hops": 2000,
        "placement": in_chunks(graph.ids, partitions) if rng.random() < 0.5 else None,
    }  # fmt: skip
    return Drawn(name, graph, params, how, rng.randrange(1000) if rng.random() < 0.6 else None)
