"""Shortest paths as in figure 10 of the Tornado paper (SIGMOD 2016): the events level.

    python examples/paper_paths.py
    vertexsdk run examples/paper_paths.py:PaperPaths --edges FILE --param origin=ID

The class declares no `messages`. A vertex receives every message and every change of an edge as an
event, and keeps the lengths of its producers itself, in a map. Compare with examples/distance.py,
where the engine keeps them. Three things differ from the figure:

- a length comes from the current producers, not from the least length ever, so that a deletion can
  make it longer;
- a vertex sends a target only what is new, so that the loop ends;
- after a deletion, vertices that support each other count up for ever; `bounded` stops that when a
  length reaches the number of vertices. See docs/changing-graphs.md.
"""

from vertexsdk import (
    ADD_TARGET,
    INT_MAX,
    MAIN_LOOP,
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
    batch: bool = param(False)  # the figure's doBatchProcessing: only branches send
    bounded: bool = param(True)
    length: int = state(INT_MAX)
    told: int = state(INT_MAX)  # what targets know
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
        if self.id != self.origin:
            least = min(self.lengths.values(), default=INT_MAX)
            self.length = least + 1 if least < INT_MAX else INT_MAX
            if self.bounded and self.length >= self.num_vertices:
                self.length = INT_MAX
        if not self.batch or self.loop != MAIN_LOOP:
            for target in self.removedTargets:
                self.emit(target, INT_MAX)
            for target in self.addedTargets:
                self.emit(target, self.length)
            if self.length != self.told:
                for target in self.retainedTargets:
                    self.emit(target, self.length)
            self.told = self.length


if __name__ == "__main__":
    from pathlib import Path

    import vertexsdk
    from vertexsdk import session

    spark = session("local[2]")
    imports = Path(__file__).parent / "data" / "stdlib-imports.txt"
    graph = vertexsdk.Graph.read(spark, str(imports))
    params = {"origin": "asyncio"}
    with vertexsdk.MainLoop(PaperPaths, graph, params=params, replace=True) as main:
        print(main.query().lookup(["json", "socket"], "length"))
        main.ingest([("+", "asyncio", "json"), ("-", "asyncio", "socket")])
        print(main.query().lookup(["json", "socket"], "length"))
    spark.stop()
