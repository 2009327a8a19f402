"""Betweenness centrality."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Min, Sum, Vertex, VertexId, aggregate, param, state
from vertexsdk.program.vertex import Aggregates, Delta

BATCH = 8  # sources whose paths are counted at once
LABEL, FORWARD, BACKWARD = 0, 1, 2


class BetweennessCentrality(Vertex):
    """Share of shortest paths that lead through a vertex.

    Definition: betweenness(v) = Σ over pairs s ≠ v ≠ t of σ(s, t | v) / σ(s, t), where σ(s, t) is
        the number of paths with the fewest edges from s to t and σ(s, t | v) of those through v;
        divided by the number of pairs, (n-1)·(n-2), if `normalised`. An edge without direction
        leads both ways, and each pair counts once. Parallel edges are one edge.
    Parameters: `samples`: 0 for exact values; else the mean number of sources s that are drawn at
        random, from the run's seed, and stand for all. The standard error of a normalised value is
        at most about 1 / (2·√samples). `normalised`.
    How: for eight sources at a time, paths are counted level by level away from the source, and
        shares added up level by level back.
    Converges to: that, after n + (n / 8)·2·(longest shortest path) iterations; `samples` in place
        of n where it is given. Counts of paths are floats, exact below 2^53.
    Cost: O(m) for each iteration.
    Source: Brandes, "A faster algorithm for betweenness centrality", Journal of Mathematical
        Sociology 25(2), 2001; Brandes and Pich, "Centrality estimation in large networks",
        Int. J. Bifurcation Chaos 17(7), 2007.

    Example:
        >>> from tests.support.reference import reference
        >>> params = {"normalised": False}
        >>> reference(BetweennessCentrality, [(1, 2), (2, 3)], params=params).values("betweenness")
        {1: 0.0, 2: 1.0, 3: 0.0}
    """

    samples: int = param(0)
    normalised: bool = param(True)
    betweenness: float = state(0.0)
    waits: bool = state(False)  # to be a source
    drawn: bool = state(False)
    directed: bool = state(False)
    stage: int = state(LABEL)
    number: int = state(0)  # of sources of this batch, or of the level
    sources: int = state(0)  # in all batches
    through: float = state(0.0)
    level: NDArray[np.int64] = state(
        -1, size=8
    )  # of each source: edges from it, -1 where it is not reached
    paths: NDArray[np.float64] = state(0.0, size=8)
    share: NDArray[np.float64] = state(0.0, size=8)  # Brandes' dependency
    note: NDArray[np.float64] = state(0.0, size=8)  # what is sent: paths, or shares for each path
    nothing: NDArray[np.float64] = state(0.0, size=8)  # what is sent the other way

    messages = Sum(float, size=8)
    direction = "both"
    parallel_edges = False
    least = aggregate(Min(VertexId))
    waiting = aggregate(any)
    moved = aggregate(any)
    working = aggregate(any)
    reverses = aggregate(any)

    def init(self) -> None:
        self.drawn = self.samples == 0 or self.random() * self.num_vertices < self.samples
        self.waits = self.drawn
        if self.waits:
            self.wait()
        self.working.contribute(True)
        for target in self.targets:
            self.reverses.contribute(target.reverse)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if iteration == 1:
            self.directed = self.reverses.value
        self.note[:] = 0.0
        if self.stage == LABEL:
            self.label()
        elif self.stage == FORWARD:
            self.search(delta.value)
        else:
            self.add(delta.value)
        if self.waits:
            self.wait()

    def wait(self) -> None:
        self.least.contribute(self.id)
        self.waiting.contribute(True)

    def label(self) -> None:
        """Make the next vertex that waits a source; begin when there are eight, or no more."""
        if not self.waiting.value and self.number == 0:
            self.finish()
            return
        self.working.contribute(True)
        if self.waiting.value:
            if self.least.value == self.id:
                self.waits = False
                self.level[self.number] = 0
                self.paths[self.number] = 1.0
            self.number += 1
            self.sources += 1
        if not self.waiting.value or self.number == BATCH:
            self.stage = FORWARD
            self.number = 0
            self.moved.contribute(True)
            for k in range(BATCH):
                self.note[k] = self.paths[k]

    def search(self, received: Any) -> None:
        """Count the paths to vertices that are one edge farther away."""
        self.working.contribute(True)
        if not self.moved.value:
            self.stage = BACKWARD
            self.tell()
            return
        self.number += 1
        for k in range(BATCH):
            if self.level[k] < 0 and received[k] > 0.0:
                self.level[k] = self.number
                self.paths[k] = received[k]
                self.note[k] = received[k]
                self.moved.contribute(True)

    def tell(self) -> None:
        """Send the shares of this level's vertices back."""
        for k in range(BATCH):
            if self.level[k] == self.number and self.number > 0:
                self.note[k] = (1.0 + self.share[k]) / self.paths[k]

    def add(self, received: Any) -> None:
        """Add the shares of vertices that are one edge farther away."""
        self.working.contribute(True)
        self.number -= 1
        for k in range(BATCH):
            if self.level[k] == self.number and self.number >= 0:
                self.share[k] = self.paths[k] * received[k]
                if self.number > 0:
                    self.through += self.share[k]
        self.tell()
        if self.number <= 0:
            self.stage = LABEL
            self.number = 0
            self.level[:] = -1
            self.paths[:] = 0.0
            self.share[:] = 0.0

    def finish(self) -> None:
        """Scale what came from the sources to all pairs."""
        others = self.sources - (1 if self.drawn else 0)
        pairs = (self.num_vertices - 1.0) * (self.num_vertices - 2.0)
        if others > 0 and pairs > 0.0:
            self.betweenness = self.through * (self.num_vertices - 1) / others
            if self.normalised:
                self.betweenness /= pairs
            elif not self.directed:
                self.betweenness /= 2.0

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            away = not target.reverse if self.stage == FORWARD else target.reverse
            self.emit(target, self.note if away or not self.directed else self.nothing)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return not aggregates.working
