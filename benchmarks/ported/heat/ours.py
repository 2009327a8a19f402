import numpy as np

from vertexsdk import Sum, Vertex, VertexId, param, run, state


class Heat(Vertex):
    origin: VertexId = param()
    heat: float = state(0.0)

    messages = Sum(float, size=2)
    always = True

    def init(self):
        self.heat = 100.0 if self.id == self.origin else 0.0

    def gather(self, iteration, source, delta):
        if self.id != self.origin and delta.value[1] > 0:
            self.heat = (self.heat + delta.value[0] / delta.value[1]) / 2

    def scatter(self, iteration):
        self.emitAll(np.array([self.heat, 1.0]))


def answer(graph, origin):
    return run(Heat, graph, params={"origin": origin}, max_iterations=10)
