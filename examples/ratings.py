"""Fair scores from unfair ratings: a program of two classes, users who rate and items.

    python examples/ratings.py
    vertexsdk run examples/ratings.py:program --edges RATINGS --vertices KINDS --output scores.csv

RATINGS has lines `user item rating`; KINDS has lines `id User` or `id Item`. An item's score is
the mean of its ratings, weighted by trust in those who gave them; trust in a user falls with the
distance of their ratings from the scores (iterative filtering: Laureti, Moret, Zhang and Yu,
Europhysics Letters 75, 2006).
"""

import numpy as np

from vertexsdk import Program, Sum, Vertex, state


class User(Vertex):
    """A user; `trust` is greater the closer their ratings are to the scores."""

    trust: float = state(1.0)

    messages = Sum(float, size=2)  # from items: squared distance from the score, 1
    direction = "both"
    tolerance = 1e-9
    max_iterations = 200

    def gather(self, iteration, source, delta):
        if iteration > 1 and delta.value[1] > 0:
            self.trust = 1.0 / (0.1 + delta.value[0] / delta.value[1])

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, np.array([self.trust * target.value, self.trust]))


class Item(Vertex):
    """What is rated; `score` is the mean of its ratings, weighted by trust."""

    score: float = state(0.0)

    messages = Sum(float, size=2)  # from users: trust times rating, trust
    direction = "both"
    tolerance = 1e-9

    def gather(self, iteration, source, delta):
        if delta.value[1] > 0:
            self.score = delta.value[0] / delta.value[1]

    def scatter(self, iteration):
        for target in self.targets:
            away = target.value - self.score
            self.emit(target, np.array([away * away, 1.0]))


program = Program(User, Item, name="ratings")


if __name__ == "__main__":
    import vertexsdk
    from vertexsdk import session

    honest, spammer, items = [1, 2, 3, 4], 9, [101, 102, 103]
    ratings = [(u, i, float(i - 100 + u % 2 * 0.5)) for u in honest for i in items]
    ratings += [(spammer, i, 5.0) for i in items]
    kinds = [(u, "User") for u in [*honest, spammer]] + [(i, "Item") for i in items]

    spark = session("local[2]")
    graph = vertexsdk.Graph.from_dataframe(
        spark.createDataFrame(ratings, "source long, target long, value double"),
        spark.createDataFrame(kinds, "id long, kind string"),
    )
    result = vertexsdk.run(program, graph)
    for v, row in result.lookup([*items, *honest, spammer]).items():
        print(v, row["Item.score"] if v in items else row["trust"])
    spark.stop()
