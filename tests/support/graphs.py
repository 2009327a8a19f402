"""Random small graphs, of the kinds which make algorithms fail."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

__all__ = ["SmallGraph", "random_graph"]


@dataclass(frozen=True)
class SmallGraph:
    """Edges with values, vertices without edges among `vertices`, and how to read them."""

    edges: list[tuple[Any, Any, Any]]
    vertices: list[Any]
    undirected: bool = False

    @property
    def ids(self) -> list[Any]:
        """All vertices, ascending."""
        return sorted({*self.vertices, *(v for edge in self.edges for v in edge[:2])})


def random_graph(
    rng: random.Random,
    *,
    vertices: int = 12,
    edges: int = 30,
    undirected: bool | None = None,
    strings: bool = False,
) -> SmallGraph:
    """Make a graph with self-loops, duplicates, isolated vertices and separate parts.

    Args:
        rng: gives the same graph for the same seed.
        vertices: at most so many; ids are spread over negative and large numbers.
        edges: at most so many, with values k/8 from 0.125 to 8, so that sums are exact.
        undirected: None lets `rng` choose.
        strings: ids are strings.
    """
    n = rng.randint(1, vertices)
    ids: list[Any] = rng.sample([*range(-2, 2 * vertices), *range(10**12, 10**12 + vertices)], n)
    if strings:
        ids = [f"v{i}" for i in ids]
    parts = rng.choice([1, 1, 2, 3])
    shape = rng.choice(["uniform", "skewed", "chain", "ring"])
    chosen: list[tuple[Any, Any, float]] = []
    for k in range(rng.randint(0, edges)):
        s = rng.randrange(n)
        if shape == "chain" or shape == "ring":
            s = k % n
            t = (s + 1) % n if shape == "ring" or rng.random() < 0.2 else min(s + 1, n - 1)
        elif shape == "skewed":
            t = min(rng.randrange(n), rng.randrange(n), rng.randrange(n))
            s, t = rng.choice([(s, t), (t, s)])
        else:
            t = rng.randrange(n)
        if s % parts == t % parts or shape in ("chain", "ring"):
            chosen.append((ids[s], ids[t], rng.randint(1, 64) / 8))
        if chosen and rng.random() < 0.15:
            s_, t_, _ = rng.choice(chosen)
            again = rng.choice([(s_, t_), (t_, s_), (s_, s_)])
            chosen.append((*again, rng.randint(1, 64) / 8))
    listed = rng.sample(ids, rng.randint(0, n)) or ids[:1]
    if undirected is None:
        undirected = rng.random() < 0.4
    return SmallGraph(chosen, listed, undirected)
