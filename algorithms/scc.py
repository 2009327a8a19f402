"""Strongly connected components, by trimming and forward-backward colouring."""

from vertexsdk import INT_MAX, INT_MIN, Min, Vertex, VertexId, state
from vertexsdk.program.vertex import Delta

# Stages, a round each. All vertices are in the same one, but for those which are done.
TRIM_IN, TRIM_OUT, COLOUR, REACH, DONE = 0, 1, 2, 3, 4


class StronglyConnectedComponents(Vertex):
    """Smallest id among all vertices that can be reached from a vertex and reach it.

    Two vertices are in the same component exactly if they have the same value.

    How: in four stages, again and again, each of which is a round: it ends at a fixed point.
        TRIM_IN, TRIM_OUT: a vertex into which (out of which) no edge leads is a component alone.
        COLOUR: along edges, every vertex takes the smallest id from which it can be reached.
        REACH: against edges, from every vertex that kept its own id as colour: the vertices of
        that colour which are reached are its component, and are done.
    Converges to: the components; all four stages end at least one for each colour.
    Cost: each stage takes as many iterations as its longest path; vertices and edges are looked at
        where something moved. Few stages where one component is large, as in most real graphs; at
        worst O(n) iterations and O(n·(n + m)) in all.
    Source: Orzan, "On distributed verification and verified distribution", 2004, section 3.4;
        Slota, Rajamanickam and Madduri, "BFS and coloring-based parallel algorithms for strongly
        connected components", IPDPS 2014.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2), (2, 3), (3, 2), (3, 4)]
        >>> reference(StronglyConnectedComponents, edges).values("component")
        {1: 1, 2: 2, 3: 2, 4: 4}
    """

    component: VertexId = state()
    stage: int = state(TRIM_IN)
    reached: bool = state(False)
    symmetric: bool = state(True)

    messages = Min(VertexId)
    direction = "both"

    def init(self) -> None:
        if self.id == INT_MIN:  # its complement, which is sent, is what stands for no message
            raise ValueError("scc needs ids above -9223372036854775808: relabel that vertex")
        self.component = self.id
        for target in self.targets:
            if target.reverse:
                # Without one the graph is undirected, or nothing leads here: see TRIM_IN.
                self.symmetric = False

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if self.stage == COLOUR:
            self.component = min(self.component, delta.value)
        elif self.stage == REACH:
            # Colours come as complements, the least of which is the greatest colour: no consumer
            # has a greater colour than this vertex, so none hides its own.
            self.reached = self.reached or delta.value == ~self.component
        elif self.stage != DONE and delta.value == INT_MAX:
            self.stage = DONE

    def next_round(self, round: int) -> None:
        if self.stage == DONE:
            return
        if self.stage == REACH:
            self.stage = DONE if self.reached else TRIM_IN
        else:
            self.stage += 1
        if self.stage == TRIM_IN or self.stage == COLOUR:
            self.component = self.id
        self.reached = self.stage == REACH and self.component == self.id

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(
                target,
                INT_MAX
                if target.id == self.id
                or (
                    not self.symmetric
                    and (self.stage == TRIM_IN or self.stage == COLOUR) == target.reverse
                )
                else self.component
                if self.stage == COLOUR
                else ~self.component
                if self.reached
                else INT_MIN  # any but INT_MAX
                if self.stage == TRIM_IN or self.stage == TRIM_OUT
                else INT_MAX,
            )
