import numpy as np

from vertexsdk import Sum, Vertex, run, state


class OlderFollowers(Vertex):
    average: float = state(0.0)

    messages = Sum(float, size=2)

    def gather(self, iteration, source, delta):
        if delta.value[0] > 0:
            self.average = delta.value[1] / delta.value[0]

    def scatter(self, iteration):
        for target in self.targets:
            if self.id > target.id:
                self.emit(target, np.array([1.0, float(self.id)]))


def answer(graph):
    return run(OlderFollowers, graph, max_iterations=1)
