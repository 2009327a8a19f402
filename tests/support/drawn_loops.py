"""Main loops of drawn graphs and changes, whose answers are compared with runs from scratch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import vertexsdk
from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop, Vertex, run
from vertexsdk.program.program import Program

Edge = tuple[int, int]
Edges = dict[Edge, int]  # with their values


def name(vertex: int, *, strings: bool) -> Any:
    """An id: numbers of which most are absent, or strings, whose order is another one."""
    return f"v{vertex * 7 % 100}" if strings else vertex * 3 - 20


def attributes_of(value: int, attributes: Sequence[str]) -> dict[str, int]:
    """The attributes of an edge, of which the model has one number."""
    return {name: value * (k + 1) % 5 for k, name in enumerate(attributes)}


def graph_of(
    edges: Iterable[Edge] | Mapping[Edge, int],
    *,
    undirected: bool,
    strings: bool,
    partitions: int,
    values: bool = False,
    attributes: Sequence[str] = (),
    starts: Mapping[int, int] | None = None,
    kinds: Mapping[int, str] | None = None,
) -> Graph:
    pairs = sorted(edges)
    ends = ([name(edge[k], strings=strings) for edge in pairs] for k in (0, 1))
    given: Any = [edges[edge] for edge in pairs] if values and isinstance(edges, Mapping) else None
    if attributes:
        rows = [attributes_of(value, attributes) for value in given]
        given = {name: [row[name] for row in rows] for name in attributes}
    vertices: Any = None
    if starts:
        ids = [name(v, strings=strings) for v in starts]
        vertices = {"id": ids, "start": [*starts.values()]}
    if kinds:
        ids = [name(v, strings=strings) for v in kinds]
        vertices = {"id": ids, "kind": [*kinds.values()]}
    return Graph.from_arrays(
        *ends, given, vertices=vertices, undirected=undirected, partitions=partitions
    )


def rows_of(result: Any) -> dict[Any, Any]:
    return {next(iter(row.values())): row for row in result.to_arrow().to_pylist()}


def _adds_floats(program: Program) -> bool:
    """True if sums differ in their last digits where names are in other partitions."""
    algebra = program.algebra
    return algebra is not None and algebra.recombines and algebra.dtype.kind == "f"


class DrawnLoop:
    """A main loop and a model of its edges, changed at random.

    Args:
        program: of one class, or of several, of which vertices are at random.
        chance: what is drawn is drawn from it.
        partitions: of the graph.
    """

    def __init__(self, program: Program, chance: random.Random, partitions: int) -> None:
        self.program, self.chance = program, chance
        self.compiled = chance.choice([False, "require"])
        self.options: dict[str, Any] = {
            "undirected": chance.random() < 0.5,
            "strings": chance.random() < 0.3 and not (partitions > 1 and _adds_floats(program)),
        }
        self.options["partitions"] = partitions
        self.options["values"] = program.value_dtype is not None
        edge = program.classes[0].cls.edge
        self.attributes = tuple(edge) if isinstance(edge, Mapping) else ()
        self.options["attributes"] = self.attributes
        self.size = chance.choice([4, 8, 20, 60])
        if "start" in program.states():  # an attribute of some vertices
            some = chance.sample(range(self.size + 3), self.size // 2)
            self.options["starts"] = {v: chance.randint(0, 9) for v in some}
        if len(program.classes) > 1:
            names = [spec.name for spec in program.classes]
            some = chance.sample(range(self.size + 3), self.size)
            self.options["kinds"] = {v: chance.choice(names) for v in some}
        self.edges: Edges = {
            self.edge(): self.value() for _ in range(chance.choice([1, self.size, 4 * self.size]))
        }
        self.url = f"memory://drawn-{program.name}-{chance.random()}"
        self.main = self.begun(self.edges, self.url)
        self.starts: Counter[str] = Counter()

    def begun(self, edges: Edges, url: str) -> MainLoop:
        """Return a main loop on these edges."""
        graph = graph_of(edges, **self.options)
        return MainLoop(self.program, graph, backend=url, compiled=self.compiled)

    def edge(self) -> Edge:
        a, b = (self.chance.randrange(self.size + 3) for _ in range(2))
        return (min(a, b), max(a, b)) if self.options["undirected"] else (a, b)

    def value(self) -> int:
        """The value of an edge."""
        return self.chance.randint(1, 4) if self.options["values"] else 0

    def changes(self, edges: Edges) -> list[tuple[Any, ...]]:
        """Draw changes, and make them in the model."""
        changes: list[tuple[Any, ...]] = []
        for _ in range(self.chance.choice([1, 1, 2, 5, 20])):
            known = edges and self.chance.random() < 0.5
            edge = self.chance.choice(sorted(edges)) if known else self.edge()
            sign = self.chance.choice("+-~" if self.options["values"] and known else "+-")
            if sign == "-" and [*edges] == [edge]:
                continue
            value: Any = self.value()
            if sign == "-":
                edges.pop(edge, None)
            else:
                edges[edge] = value
            ends = (name(v, strings=self.options["strings"]) for v in edge)
            change = (sign, *ends)
            value = attributes_of(value, self.attributes) if self.attributes else value
            changes.append((*change, value) if self.options["values"] and sign != "-" else change)
        return changes

    def check(self, loop: Any, edges: Edges) -> None:
        """Compare the answer, and what the store has of it, with a run from scratch."""
        result = loop.query() if isinstance(loop, MainLoop) else loop.result()
        self.starts[result.statistics["start"]] += 1
        url = f"{self.url}-{self.chance.random()}"
        scratch = run(
            self.program, graph_of(edges, **self.options), backend=url, compiled=self.compiled
        )
        expected = rows_of(scratch)
        assert rows_of(result) == expected
        with vertexsdk.read(result.backend, result.loop) as stored:
            assert rows_of(stored) == expected


def check_drawn_loops(
    program: type[Vertex] | Program,
    partitions: int,
    times: int,
    check: Callable[[DrawnLoop], None] = lambda drawn: None,
) -> Counter[str]:
    """Change main loops and branches, merge and resume them, and check their answers.

    Args:
        program: the program, or its only class.
        partitions: of each graph.
        times: how many loops.
        check: is called with each loop when it has its last answer.

    Returns:
        How many answers began in each way, by the statistic `start`.
    """
    chance, starts = random.Random(seed()), Counter[str]()
    program = program if isinstance(program, Program) else Program(program)
    for _ in range(times):
        drawn = DrawnLoop(program, chance, partitions)
        main, edges = drawn.main, drawn.edges
        drawn.check(main, edges)
        for left in reversed(range(chance.choice([1, 3, 6]))):
            main.ingest(drawn.changes(edges))
            if chance.random() < 0.6:
                drawn.check(main, edges)
            if chance.random() < 0.3:
                branch, other = main.fork(), dict(edges)
                branch.apply(drawn.changes(other))
                drawn.check(branch, other)
                if chance.random() < 0.5:
                    branch.merge()
                    edges.clear()
                    edges.update(other)
                else:
                    branch.close()
            if left and chance.random() < 0.1:
                main.close()
                main = drawn.main = MainLoop.resume(None, program, backend=drawn.url)
                drawn.check(main, edges)
        drawn.check(main, edges)  # which follows from an earlier one
        check(drawn)
        main.close()
        starts += drawn.starts
    return starts
