from vertexsdk import Min, Vertex, VertexId, run, state


class Components(Vertex):
    label: VertexId = state()

    messages = Min(VertexId)
    direction = "undirected"

    def init(self):
        self.label = self.id

    def gather(self, iteration, source, delta):
        self.label = min(self.id, delta.value)

    def scatter(self, iteration):
        self.emitAll(self.label)


def answer(graph):
    return run(Components, graph)
