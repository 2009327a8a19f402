from vertexsdk import Min, Vertex, VertexId, inf, param, run, state


class ShortestPaths(Vertex):
    origin: VertexId = param()
    length: float = state(inf)

    messages = Min(float)

    def init(self):
        self.length = 0.0 if self.id == self.origin else inf

    def gather(self, iteration, source, delta):
        self.length = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.length + target.value)


def answer(graph, origin):
    return run(ShortestPaths, graph, params={"origin": origin})
