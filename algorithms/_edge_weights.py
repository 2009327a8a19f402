"""Edge values as weights, for the variants of programs that are run with `weight="value"`."""

from vertexsdk import Vertex, inf


class EdgeWeights(Vertex, abstract=True):
    """Checks and sums of the values of a vertex's edges."""

    def edge_total(self) -> float:
        """Return the sum of the values of all edges out of the vertex.

        Raises:
            ValueError: a value is negative or not a number, or their sum is infinite.
        """
        total = 0.0
        for target in self.targets:
            if not target.value >= 0.0:
                raise ValueError("with weight='value' edge values are numbers from 0 up")
            total += target.value
        if not total < inf:
            raise ValueError("with weight='value' edge values have a finite sum")
        return total
