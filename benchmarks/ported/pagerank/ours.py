from vertexsdk import Sum, Vertex, run, state


class PageRank(Vertex):
    rank: float = state(0.15)

    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.rank = 0.15 + 0.85 * delta.value

    def scatter(self, iteration):
        if len(self.targets) > 0:
            self.emitAll(self.rank / len(self.targets))


def answer(graph):
    return run(PageRank, graph, max_iterations=10)
