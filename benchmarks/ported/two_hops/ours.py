from vertexsdk import Sum, Vertex, run, state


class TwoHops(Vertex):
    count: int = state(1)

    messages = Sum(int)
    always = True

    def gather(self, iteration, source, delta):
        self.count = delta.value

    def scatter(self, iteration):
        self.emitAll(self.count)


def answer(graph):
    return run(TwoHops, graph, max_iterations=2)
