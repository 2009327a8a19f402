"""Closeness and harmonic centrality."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Algebra, Min, Vertex, VertexId, aggregate, param, state
from vertexsdk.program.vertex import Aggregates, Delta

WORD, BATCH = 62, 496  # sources in an int of `seen`, and in all eight
LABEL, SEARCH = 0, 1


def either(a: int, b: int) -> int:
    """Return the bits that are set in a or in b."""
    return a | b


def ones(bits: int) -> int:
    """Return how many bits are set.

    >>> ones(0b1011)
    3
    """
    count = 0
    while bits != 0:
        bits &= bits - 1
        count += 1
    return count


class ClosenessCentrality(Vertex):
    """Nearness of a vertex to the others: `closeness` and `harmonic`.

    Definition: with d(u, v) the number of edges on the shortest path from u to v,
        harmonic(v) = Σ over u ≠ v of 1/d(u, v), where 1/∞ = 0; and
        closeness(v) = (r - 1)/(n - 1) · (r - 1)/Σ d(u, v), over the r vertices u from which v can
        be reached, v included.
    Parameters: `samples`: 0 for exact values; else the mean number of vertices u that are drawn at
        random, from the run's seed, and stand for all. The standard error of harmonic(v) is at most
        n / (2·√samples).
    How: up to 496 sources u get a bit each, one in an iteration; then breadth-first searches from
        all of them run at once, a set of bits in each message. Then the next 496.
    Converges to: that, after n + (n / 496)·(longest shortest path) iterations; `samples` in place
        of n where it is given.
    Cost: O(n) for each source, O(m) for each iteration of a search.
    Source: Boldi and Vigna, "Axioms for centrality", Internet Mathematics 10, 2014; Wasserman and
        Faust, 1994, for graphs of several parts; Then et al., "The more the merrier: efficient
        multi-source graph traversal", PVLDB 8(4), 2014; Eppstein and Wang, "Fast approximation of
        centrality", JGAA 8(1), 2004.

    Example:
        >>> from tests.support.reference import reference
        >>> reference(ClosenessCentrality, [(1, 2), (2, 3)]).values("harmonic")
        {1: 0.0, 2: 1.0, 3: 1.5}
    """

    samples: int = param(0)
    harmonic: float = state(0.0)
    closeness: float = state(0.0)
    waits: bool = state(False)  # to be a source
    drawn: bool = state(False)
    stage: int = state(LABEL)
    number: int = state(0)  # of sources of this batch, or of the level of the search
    sources: int = state(0)  # in all batches
    reached: int = state(0)  # sources from which there is a path, the vertex itself left out
    distance: int = state(0)  # of all of them
    inverse: float = state(0.0)
    seen: NDArray[np.int64] = state(0, size=8)

    messages = Algebra(int, combine=either, identity=0, size=8)
    least = aggregate(Min(VertexId))
    waiting = aggregate(any)
    moved = aggregate(any)
    working = aggregate(any)

    def init(self) -> None:
        self.drawn = self.samples == 0 or self.random() * self.num_vertices < self.samples
        self.waits = self.drawn
        if self.waits:
            self.wait()
        self.working.contribute(True)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if self.stage == LABEL:
            self.label()
        else:
            self.search(delta.value)

    def wait(self) -> None:
        self.least.contribute(self.id)
        self.waiting.contribute(True)

    def label(self) -> None:
        """Give the next vertex that waits a bit; begin a search when all bits are given."""
        if not self.waiting.value and self.number == 0:
            self.finish()
            return
        self.working.contribute(True)
        if self.waiting.value and self.number < BATCH:
            if self.least.value == self.id:
                self.waits = False
                self.seen[self.number // WORD] = 1 << (self.number % WORD)
            self.number += 1
            self.sources += 1
        if self.waits:
            self.wait()
        if not self.waiting.value or self.number == BATCH:
            self.stage = SEARCH
            self.number = 0
            self.moved.contribute(True)

    def search(self, received: Any) -> None:
        """Take in the sources from which there is a path of one more edge."""
        self.working.contribute(True)
        if self.waits:
            self.wait()
        if not self.moved.value:
            self.stage = LABEL
            self.number = 0
            self.seen[:] = 0
            return
        self.number += 1
        new = 0
        for word in range(8):
            new += ones(received[word] & ~self.seen[word])
            self.seen[word] |= received[word]
        if new > 0:
            self.moved.contribute(True)
            self.reached += new
            self.distance += new * self.number
            self.inverse += new / self.number

    def finish(self) -> None:
        """Scale what came from the sources to all vertices."""
        others = self.sources - (1 if self.drawn else 0)
        if others > 0:
            scale = (self.num_vertices - 1) / others
            self.harmonic = self.inverse * scale
            if self.distance > 0:
                share = self.reached * scale / (self.num_vertices - 1)
                self.closeness = share * self.reached / self.distance

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.seen)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return not aggregates.working
