"""How many vertices can reach each vertex, about: an algebra of one's own, and vectors.

    python examples/reach.py
    vertexsdk run examples/reach.py:Reach --edges FILE --output reach.csv

To count exactly, every vertex would have to keep a set. Instead it keeps 32 small sketches of it,
which are joined bit by bit: `union` is associative, commutative, and has no inverse (Palmer,
Gibbons and Faloutsos, "ANF", KDD 2002, after Flajolet and Martin, 1985).
"""

import numpy as np

from vertexsdk import Algebra, Vertex, state

SKETCHES = 32
PRIME = 2147483647


def union(a, b):
    """Both sketches' bits."""
    return a | b


def own_bit(vertex, sketch):
    """Bit k with probability 2**-(k+1), the same for the same vertex and sketch."""
    x = (vertex % PRIME) * 48271 % PRIME
    x = (x + 7919 * (sketch + 1)) % PRIME
    for _ in range(3):
        x = x * 48271 % PRIME
        x = (x ^ (x >> 13)) % PRIME
    bit = 0
    while bit < 30 and (x >> bit) % 2 == 1:
        bit += 1
    return 1 << bit


class Reach(Vertex):
    """Estimate of the number of vertices from which a path leads here, itself included."""

    count: float = state(0.0)
    sketch: int = state(0, size=SKETCHES)

    messages = Algebra(int, combine=union, identity=0, size=SKETCHES)

    def init(self):
        for k in range(SKETCHES):
            self.sketch[k] = own_bit(self.id, k)

    def gather(self, iteration, source, delta):
        zeros = 0.0
        for k in range(SKETCHES):
            self.sketch[k] = own_bit(self.id, k) | delta.value[k]
            bit = 0
            while (self.sketch[k] >> bit) % 2 == 1:
                bit += 1
            zeros += bit
        self.count = 2.0 ** (zeros / SKETCHES) / 0.77351

    def scatter(self, iteration):
        self.emitAll(self.sketch)


if __name__ == "__main__":
    import vertexsdk
    from vertexsdk import session

    rng = np.random.default_rng(1)
    source = rng.integers(0, 5000, 6000)
    target = rng.integers(0, 5000, 6000)
    spark = session("local[2]")
    graph = vertexsdk.Graph.from_arrays(source, target, spark=spark)
    result = vertexsdk.run(Reach, graph)
    result.dataframe().select("id", "count").orderBy("count", ascending=False).show(5)
    spark.stop()
