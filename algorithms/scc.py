"""Strongly connected components, by trimming and forward-backward colouring."""

from vertexsdk import INT_MAX, INT_MIN, Min, Vertex, VertexId, aggregate, state
from vertexsdk.program.vertex import Delta

# Stages of a round. All vertices are in the same one, but for those which are done.
TRIM_IN, TRIM_OUT, COLOUR, REACH, DONE = 0, 1, 2, 3, 4


class StronglyConnectedComponents(Vertex):
    """Smallest id among all vertices that can be reached from a vertex and reach it.

    Two vertices are in the same component exactly if they have the same value.

    How: in rounds of four stages, each of which lasts until no vertex moves.
        TRIM_IN, TRIM_OUT: a vertex into which (out of which) no edge leads is a component alone.
        COLOUR: along edges, every vertex takes the smallest id from which it can be reached.
        REACH: against edges, from every vertex that kept its own id as colour: the vertices of
        that colour which are reached are its component, and are done.
    Converges to: the components; every round ends at least one for each colour.
    Cost: each stage takes as many iterations as its longest path, and looks at all vertices in
        each; edges are looked at where something moved. Few rounds where one component is large,
        as in most real graphs; at worst O(n) iterations and O(n·(n + m)) in all.
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
    moved = aggregate(any)

    def init(self) -> None:
        if self.id == INT_MIN:  # its complement, which is sent, is what stands for no message
            raise ValueError("scc needs ids above -9223372036854775808: relabel that vertex")
        self.component = self.id
        self.moved.contribute(True)
        for target in self.targets:
            if target.reverse:
                # Without one the graph is undirected, or nothing leads here: see TRIM_IN.
                self.symmetric = False

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if self.stage == DONE:
            return
        if not self.moved.value:
            self.advance()
            self.moved.contribute(True)
        elif self.move(delta.value):
            self.moved.contribute(True)

    def advance(self) -> None:
        """Go to the next stage, as all vertices do in this iteration."""
        if self.stage == REACH:
            self.stage = DONE if self.reached else TRIM_IN
        else:
            self.stage += 1
        if self.stage == TRIM_IN or self.stage == COLOUR:
            self.component = self.id
        self.reached = self.stage == REACH and self.component == self.id

    def move(self, message: VertexId) -> bool:
        """Take part in a stage; tell whether anything changed."""
        if self.stage == COLOUR:
            if message < self.component:
                self.component = message
                return True
        elif self.stage == REACH:
            # Colours come as complements, the least of which is the greatest colour: no consumer
            # has a greater colour than this vertex, so none hides its own.
            if not self.reached and message == ~self.component:
                self.reached = True
                return True
        elif message == INT_MAX:
            self.stage = DONE
            return True
        return False

    def scatter(self, iteration: int) -> None:
        forward = self.stage == TRIM_IN or self.stage == COLOUR
        message = INT_MAX
        if self.stage == COLOUR:
            message = self.component
        elif self.stage == REACH and self.reached:
            message = ~self.component
        elif self.stage == TRIM_IN or self.stage == TRIM_OUT:
            message = INT_MIN  # any but INT_MAX
        for target in self.targets:
            along = self.symmetric or forward != target.reverse
            self.emit(target, message if along and target.id != self.id else INT_MAX)
