"""Programs of the events level which tests run, and the graphs they are run on."""

from __future__ import annotations

from typing import Any

from tests.support.example_modules import example_module
from tests.support.random_changes import Edges
from vertexsdk import INT_MAX, MAIN_LOOP, UPDATE, Vertex, VertexId, producers, state

PaperPaths = example_module("paper_paths").PaperPaths


class Weights(Vertex):
    """The sum of the values of the edges that come in, and how often each message was new."""

    total: float = state(0.0)
    gone: int = state(0)
    heard = producers(object)
    edge = float

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        if delta.kind == UPDATE:
            if delta.value is None:
                del self.heard[source]
                self.gone += 1
            else:
                self.heard[source] = delta.value

    def scatter(self, iteration):
        self.total = sum(self.heard[s] for s in sorted(self.heard))
        for target in self.removedTargets:
            self.emit(target, None)
        for target in self.addedTargets:
            self.emit(target, target.value)


class Recorder(Vertex):
    """Writes down all that it is told."""

    log: str = state("")
    edge = int

    def init(self):
        self.log = f"{self.loop}:"

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        self.log += f" {source},{delta.kind},{delta.value}"

    def scatter(self, iteration):
        pass


class Steps(Vertex):
    """Messages go round: a vertex sends on what it got, less one, and sums what it ever got."""

    got: int = state(0)
    now: int = state(0)

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        if delta.kind in (UPDATE, "START"):
            self.got += delta.value
            self.now = max(self.now, delta.value - 1)

    def scatter(self, iteration):
        if self.now > 0:
            self.emitAll(self.now)
        self.now = 0


class Says(Vertex):
    """Tells its targets the loop it is in, unless that is the main loop."""

    heard: str = state("")

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        if delta.kind == UPDATE:
            self.heard = delta.value

    def scatter(self, iteration):
        if self.loop != MAIN_LOOP and not self.heard:
            self.emitAll(self.loop)


class Least(Vertex):
    """The least id that reaches a vertex."""

    least: VertexId = state(INT_MAX)
    fresh: bool = state(False)

    def init(self):
        self.least = self.id

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        if delta.kind == UPDATE and delta.value < self.least:
            self.least, self.fresh = delta.value, True

    def scatter(self, iteration):
        for target in self.targets if self.fresh else self.addedTargets:
            self.emit(target, self.least)
        self.fresh = False


def both_ways(edges: Edges, *, undirected: bool) -> Edges:
    """Every edge as it is followed."""
    return edges | {(b, a): x for (a, b), x in edges.items()} if undirected else edges


def lengths(edges: Edges, origin: Any) -> dict[Any, int]:
    """The number of edges on the shortest path to every vertex: an oracle."""
    found = {v: INT_MAX for pair in edges for v in pair} | {origin: 0}
    frontier, length = {origin}, 0
    while frontier:
        length += 1
        frontier = {b for a, b in edges if a in frontier and found[b] == INT_MAX}
        found |= dict.fromkeys(frontier, length)
    return dict(sorted(found.items()))


def weights(edges: Edges) -> dict[Any, float]:
    """The sum of the values of the edges into every vertex: an oracle."""
    found = {v: 0.0 for pair in edges for v in pair}
    for (_, b), x in edges.items():
        found[b] += x
    return dict(sorted(found.items()))
