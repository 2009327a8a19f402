"""Programs with declared messages which several tests of changing graphs run."""

from __future__ import annotations

from vertexsdk import Max, Min, Vertex, VertexId, inf, param, state
from vertexsdk.program.vertex import Delta


class Widest(Vertex):
    """The widest path to every vertex from an origin: the largest least value along it."""

    origin: VertexId = param()
    width: float = state(0.0)
    messages = Max(float)

    def init(self) -> None:
        self.width = inf if self.id == self.origin else 0.0

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.width = inf if self.id == self.origin else max(delta.value, 0.0)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, min(self.width, target.value))


class Hops(Vertex):
    """Edges from an origin; a vertex that none leads to sends nothing, not even that."""

    origin: VertexId = param()
    hops: float = state(inf)
    messages = Min(float)

    def init(self) -> None:
        self.hops = 0.0 if self.id == self.origin else inf

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.hops = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration: int) -> None:
        if self.hops < inf:
            self.emitAll(self.hops + 1.0)


class Lengths(Hops):
    """The same with a message for each edge."""

    def scatter(self, iteration: int) -> None:
        if self.hops < inf:
            for target in self.targets:
                self.emit(target, self.hops + target.value)


class Sinking(Vertex):
    """Ranks begin at 9 and count up to 20 where nobody hears of the origin: messages get worse.

    A vertex with an even id passes its rank on as it is, so one with an edge to itself stays where
    it begins.
    """

    origin: VertexId = param()
    rank: int = state(9)
    messages = Min(int)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.rank = 1 if self.id == self.origin else min(delta.value, 20)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.rank + self.id % 2)


class Rising(Sinking):
    """The same with Max, and edges' values."""

    messages = Max(int)
    edge = int

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.rank = 20 if self.id == self.origin else max(delta.value, 0)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.rank - target.value)


class Alternating(Vertex):
    """Who hears 5 says 1, and who hears 1 says 5: of two neighbours the first one wins."""

    origin: VertexId = param()
    level: int = state(0)
    messages = Max(int)
    asynchronous = False

    def init(self) -> None:
        self.level = 1 if self.id == self.origin else 0

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.level = 1 if self.id == self.origin else max(delta.value, 0)

    def scatter(self, iteration: int) -> None:
        if self.level > 0:
            self.emitAll(1 if self.level == 5 or self.id > 6 else 5)
