"""Shortest paths as in figure 10 of the Tornado paper (SIGMOD 2016): the events level.

    python examples/paper_paths.py
    vertexsdk run examples/paper_paths.py:PaperPaths --edges FILE --param origin=ID

There is no `messages` here. A vertex is told of every message and of every edge by an event, and
keeps the lengths of its producers itself, in a map. Compare with examples/distance.py, where the
engine keeps them. One thing is added to the figure: a vertex says its length again only when it
has changed, or the loop would never end.
"""

from vertexsdk import (
    ADD_TARGET,
    INT_MAX,
    REMOVE_TARGET,
    UPDATE,
    Vertex,
    VertexId,
    param,
    producers,
    state,
)


class PaperPaths(Vertex):
    """Number of edges on the shortest path from `origin`."""

    origin: VertexId = param()
    length: int = state(INT_MAX)
    lengths = producers(int)

    def init(self):
        self.length = 0 if self.id == self.origin else INT_MAX

    def gather(self, iteration, source, delta):
        if delta.kind == ADD_TARGET:
            self.addTarget(delta.value)
        elif delta.kind == REMOVE_TARGET:
            self.removeTarget(delta.value)
        elif delta.kind == UPDATE:
            self.lengths[source] = delta.value

    def scatter(self, iteration):
        length = self.length
        for known in self.lengths.values():
            if known < INT_MAX:
                length = min(length, known + 1)
        for target in self.removedTargets:
            self.emit(target, INT_MAX)
        for target in self.addedTargets:
            self.emit(target, length)
        if length != self.length:
            for target in self.retainedTargets:
                self.emit(target, length)
        self.length = length


if __name__ == "__main__":
    from pathlib import Path

    import vertexsdk
    from vertexsdk.session import session

    spark = session("local[2]")
    imports = Path(__file__).parent / "data" / "stdlib-imports.txt"
    graph = vertexsdk.Graph.read(spark, str(imports))
    result = vertexsdk.run(PaperPaths, graph, params={"origin": "asyncio"})
    result.dataframe().orderBy("length", "id").show(12)
    spark.stop()
