"""k-means over points that keep arriving: deltas of your own kinds, and an `Ingester`.

    python examples/live_means.py

Vertices 0, 1, ... are centres; the others are cells, which store points. A point reaches a cell as
a delta of kind "POINT". Cells send each centre the sum of the points that are nearest to it, and
centres send the cells their positions, until no point changes its centre.
"""

from vertexsdk import UPDATE, Ingester, Vertex, param, producers, state

CELLS = (100, 101)


class Means(Vertex):
    """A centre at (`x`, `y`) of `size` points; or a cell, which has only `size`."""

    centres: int = param(2)
    x: float = state(0.0)
    y: float = state(0.0)
    size: int = state(0)
    points = producers(object)  # of a cell, by number
    heard = producers(object)  # of a cell the centres; of a centre its sums in each cell
    told = producers(object)  # to each target

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        if delta.kind == "POINT":
            self.points[len(self.points)] = delta.value
        elif delta.kind == "BEGIN":
            self.x, self.y = delta.value
        elif delta.kind == UPDATE:
            self.heard[source] = delta.value

    def scatter(self, iteration):
        if self.id < self.centres:
            self.move()
            news = {target.id: (self.x, self.y) for target in self.targets}
        else:
            self.size = len(self.points)
            news = self.sums() if len(self.heard) == self.centres else {}
        for target, value in news.items():
            if self.told.get(target) != value:
                self.told[target] = value
                self.emit(target, value)

    def move(self):
        """Go to the mean of the points which are nearest."""
        sums = [self.heard[cell] for cell in sorted(self.heard)]
        self.size = sum(size for _, _, size in sums)
        if self.size:
            self.x = sum(x for x, _, _ in sums) / self.size
            self.y = sum(y for _, y, _ in sums) / self.size

    def sums(self):
        """The sum and the number of the points which are nearest to each centre."""
        news = dict.fromkeys(sorted(self.heard), (0.0, 0.0, 0))
        for x, y in self.points.values():
            near = min(
                news, key=lambda c: (x - self.heard[c][0]) ** 2 + (y - self.heard[c][1]) ** 2
            )
            a, b, size = news[near]
            news[near] = (a + x, b + y, size + 1)
        return news


class Points(Ingester):
    """Lines `x y`; the first of them say where the centres begin."""

    def __init__(self, centres=2):
        self.centres, self.seen = centres, 0

    def ingest(self, record):
        x, y = (float(field) for field in record.split())
        if self.seen < self.centres:
            self.send(self.seen, "BEGIN", (x, y))
        self.send(CELLS[self.seen % len(CELLS)], "POINT", (x, y))
        self.seen += 1


def edges(centres=2):
    """Every centre and every cell, both ways."""
    pairs = [(centre, cell) for centre in range(centres) for cell in CELLS]
    return pairs + [(cell, centre) for centre, cell in pairs]


if __name__ == "__main__":
    import vertexsdk
    from vertexsdk import session

    spark = session("local[2]")
    source, target = zip(*edges(), strict=True)
    graph = vertexsdk.Graph.from_arrays(source, target, spark=spark)
    points = Points()
    with vertexsdk.MainLoop(Means, graph, backend="memory://means") as main:
        for lines in (["1 1", "2 1", "9 8"], ["8 9", "1 2", "30 30", "31 29"]):
            main.ingest(points.batch(lines))
            print(main.query().lookup([0, 1]))
    spark.stop()
