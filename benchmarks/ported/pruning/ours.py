from vertexsdk import Sum, Vertex, param, run, state


class Pruning(Vertex):
    k: int = param(10)
    inside: bool = state(True)

    messages = Sum(int)
    direction = "both"

    def gather(self, iteration, source, delta):
        self.inside = self.inside and delta.value >= self.k

    def scatter(self, iteration):
        self.emitAll(1 if self.inside else 0)


def answer(graph):
    return run(Pruning, graph)
