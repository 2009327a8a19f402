"""The route of fewest edges from one vertex to every other, as text: ids and messages are strings.

    python examples/routes.py
    vertexsdk run examples/routes.py:Routes --edges FILE --param origin=ID --output routes.csv

Strings have no place in compiled code, so this runs interpreted, after a warning which says so.
"""

from vertexsdk import Algebra, Vertex, VertexId, param, state


def better(a, b):
    """The route with fewer stops; of equals the first in the alphabet; no route is ""."""
    if not a or not b:
        return a or b
    return min(a, b, key=lambda route: (route.count(">"), route))


class Routes(Vertex):
    """Route from `origin`, such as "asyncio > socket > os"; "" where there is none."""

    origin: VertexId = param()
    route: str = state("")

    messages = Algebra(str, combine=better, identity="", samples=["", "a", "b", "a > b", "c > a"])

    def gather(self, iteration, source, delta):
        if self.id == self.origin:
            self.route = str(self.id)
        else:
            self.route = f"{delta.value} > {self.id}" if delta.value else ""

    def scatter(self, iteration):
        self.emitAll(self.route)


if __name__ == "__main__":
    from pathlib import Path

    import vertexsdk
    from vertexsdk import session

    spark = session("local[2]")
    imports = Path(__file__).parent / "data" / "stdlib-imports.txt"
    graph = vertexsdk.Graph.read(spark, str(imports))
    result = vertexsdk.run(Routes, graph, params={"origin": "asyncio"})
    print(max(result.to_dict("route").values(), key=len))
    spark.stop()
