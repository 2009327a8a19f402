"""The k-core by peeling: a program that changes the graph while it runs.

    python examples/peeling.py
    vertexsdk run examples/peeling.py:Peeling --edges FILE --param k=5 --output core.csv

Vertices with fewer than k neighbours leave, which may leave others with too few, and so on
(Matula and Beck, JACM 30(3), 1983). The vertices that stay are the k-core.
"""

from vertexsdk import Sum, Vertex, param, state


class Peeling(Vertex):
    """Whether a vertex is in the k-core."""

    k: int = param(3)
    inside: bool = state(True)

    messages = Sum(int)
    direction = "undirected"

    def gather(self, iteration, source, delta):
        # A vertex that has left does not come back, though its neighbours still send to it.
        self.inside = self.inside and delta.value >= self.k

    def scatter(self, iteration):
        if self.inside:
            self.emitAll(1)
        else:
            for target in self.targets:
                self.removeTarget(target)  # and with it the 1 that was sent


if __name__ == "__main__":
    from pathlib import Path

    import vertexsdk
    from vertexsdk import session

    spark = session("local[2]")
    imports = Path(__file__).parent / "data" / "stdlib-imports.txt"
    graph = vertexsdk.Graph.read(spark, str(imports))
    result = vertexsdk.run(Peeling, graph, params={"k": 12})
    inside = sorted(v for v, stays in result.to_dict("inside").items() if stays)
    print(f"{len(inside)} of {graph.num_vertices} modules in the 12-core: {', '.join(inside)}")
    spark.stop()
