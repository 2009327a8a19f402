"""Programs with declared messages which several tests of changing graphs run."""

from __future__ import annotations

from vertexsdk import Max, Vertex, VertexId, inf, param, state
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
