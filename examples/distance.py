from vertexsdk import Min, Vertex, VertexId, inf, param, state


class Distance(Vertex):
    """Number of edges on the shortest path from `origin`."""

    origin: VertexId = param()
    steps: float = state(inf)
    messages = Min(float)

    def gather(self, iteration, source, delta):
        self.steps = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration):
        self.emitAll(self.steps + 1)
