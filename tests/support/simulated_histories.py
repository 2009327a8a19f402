"""Runs and main loops under the simulator, drawn from a seed, and what their answers must be.

What a loop is told is drawn first. It is then told that twice: under the simulator, with several
partitions and faults, and without either, with one partition. The answers must be the same.
"""

from __future__ import annotations

import contextlib
import math
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.random_changes import Edges, random_rows
from tests.support.simulated_network import Faults
from tests.support.simulator import Simulator
from tests.support.stored_at_once import stored_at_once
from tests.support.window_model import Window
from vertexsdk import (
    INT_MAX,
    UPDATE,
    Budget,
    Graph,
    MainLoop,
    Min,
    Sum,
    Vertex,
    VertexId,
    producers,
    run,
    state,
)
from vertexsdk.algorithms import (
    BreadthFirstSearch,
    ConnectedComponents,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    StronglyConnectedComponents,
)
from vertexsdk.testing.oracles import expected, near

__all__ = [
    "PROGRAMS",
    "Case",
    "Heard",
    "Walks",
    "draw_case",
    "simulate_loop",
    "simulate_run",
    "soak_simulated",
]

ROUGH = Faults(late=0.05, repeated=0.1, disconnected=0.03, lost=0.05, slow=0.03, calm=100)
CLOSE = 1e-12  # relative, of sums
OFTEN = replace(ROUGH, lost=0.4)  # as a run has few commands
VERTICES = 12
STEPS = 6  # of a history


class Walks(Vertex):
    """The number of walks of each length that end at a vertex, in one number; from `init`."""

    count: int = state(1)
    messages = Sum(int)
    always = True
    max_iterations = 5

    def init(self) -> None:
        """Start from the walk of length 0."""
        self.count = 1

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        """Take in walks that are one edge longer."""
        self.count = (self.count * 31 + delta.value * iteration) % 1_000_003

    def scatter(self, iteration: int) -> None:
        """Send to all targets."""
        self.emitAll(self.count)


class Cores(Vertex):
    """Core numbers by peeling, a shell in each round."""

    k: int = state(1)
    left: bool = state(True)
    messages = Sum(int)
    direction = "undirected"

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        """Go, with less than k neighbours that are left."""
        self.left = self.left and delta.value >= self.k

    def next_round(self, round: int) -> None:
        """Look for the next shell."""
        if self.left:
            self.k += 1

    def scatter(self, iteration: int) -> None:
        """Tell neighbours whether it is left."""
        self.emitAll(int(self.left))


class Prioritised(Vertex):
    """Connected components, whose labels come in rounds: those of well connected vertices first."""

    wait: int = state(0)
    labelled: bool = state(False)
    component: VertexId = state()
    messages = Min(VertexId)
    direction = "undirected"

    def init(self) -> None:
        """Have the rounds until its id is a label."""
        self.component = self.id
        self.wait = 0 if len(self.targets) >= 6 else 1 if len(self.targets) >= 3 else 2

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        """Take the smallest label of those around."""
        if delta.value != INT_MAX:
            self.component = min(self.component, delta.value) if self.labelled else delta.value
            self.labelled = True

    def next_round(self, round: int) -> None:
        """Come nearer to a label."""
        if not self.labelled:
            self.labelled = self.wait == 0
            self.wait -= 1

    def scatter(self, iteration: int) -> None:
        """Tell neighbours a label."""
        self.emitAll(self.component if self.labelled else INT_MAX)


class Heard(Vertex):
    """An events program: the sum of the values of the edges that come in."""

    total: float = state(0.0)
    heard = producers(object)
    edge = float

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        """Keep what each producer has said last."""
        super().gather(iteration, source, delta)
        if delta.kind == UPDATE:
            if delta.value is None:
                self.heard.pop(source, None)
            else:
                self.heard[source] = delta.value

    def scatter(self, iteration: int) -> None:
        """Tell targets the values of their edges."""
        self.total = sum(self.heard[s] for s in sorted(self.heard))
        for target in self.removedTargets:
            self.emit(target, None)
        for target in self.addedTargets:
            self.emit(target, target.value)


class Lengths(ShortestPaths):
    """Shortest paths by the single attribute of edges that have names."""

    edge = {"length": float}  # noqa: RUF012

    def scatter(self, iteration: int) -> None:
        """Offer each target the distance by way of this vertex."""
        for target in self.targets:
            self.emit(target, self.length + target.length)


@dataclass(frozen=True)
class _Named:
    cls: type[Vertex]
    params: dict[str, Any] = field(default_factory=dict)
    oracle: str | None = None
    exact: bool = True
    loops: bool = True


PROGRAMS = {
    "wcc": _Named(ConnectedComponents, {}, "wcc"),
    "sssp": _Named(ShortestPaths, {"origin": 0}, "sssp"),
    "lengths": _Named(Lengths, {"origin": 0}, "sssp"),
    "bfs": _Named(BreadthFirstSearch, {"origin": 0}, "bfs"),
    "pagerank": _Named(PageRank, {"epsilon": 1e-14, "damping": 0.5}, "pagerank", exact=False),
    "cdlp": _Named(LabelPropagation, {}, "cdlp"),
    "walks": _Named(Walks),
    "cores": _Named(Cores),
    "prioritised": _Named(Prioritised),
    "scc": _Named(StronglyConnectedComponents, {}, "scc"),
    "events": _Named(Heard),
}


@dataclass
class Case:
    """A program and a graph, and how to run it.

    Attributes:
        name: of `PROGRAMS`.
        edges: the graph now.
        partitions: under the simulator.
        options: of `run`, or of the loop.
        length: of the loop's window, in which `edges` are then; None for none.
    """

    name: str
    edges: Edges
    strings: bool
    undirected: bool
    partitions: int
    options: dict[str, Any]
    length: float | None = None

    def id(self, number: int) -> Any:
        """A vertex id; strings do not order as the numbers that they are made from."""
        return f"n{number * 7919 % 1009}" if self.strings else number

    @property
    def program(self) -> type[Vertex]:
        """The class."""
        return PROGRAMS[self.name].cls

    @property
    def params(self) -> dict[str, Any]:
        """Of the program."""
        given = PROGRAMS[self.name].params
        return {k: self.id(x) if k == "origin" else x for k, x in given.items()}

    @property
    def named(self) -> bool:
        """Whether edges have an attribute instead of a value."""
        return isinstance(self.program.edge, dict)

    def changes(self, rows: list[Any]) -> list[Any]:
        """Rows with values as the program takes them."""
        if not self.named:
            return rows
        return [(*row[:3], *({"length": x} for x in row[3:])) for row in rows]

    def graph(self, partitions: int) -> Graph:
        """The graph as it is now."""
        ends = [[edge[k] for edge in self.edges] for k in (0, 1)]
        named = [self.params["origin"]] if "origin" in self.params else None
        values = list(self.edges.values())
        return Graph.from_arrays(
            *ends, {"length": values} if self.named else values, undirected=self.undirected,
            vertices=named, partitions=partitions,
        )  # fmt: skip

    def answer(self, partitions: int, **options: Any) -> dict[Any, Any]:
        """Run it; return the state by vertex."""
        graph = self.graph(partitions)
        try:
            with contextlib.closing(
                run(self.program, graph, params=self.params, backend="memory://run",
                    progress=False, **options)
            ) as result:  # fmt: skip
                return dict(result.rows())
        finally:
            graph.unpersist()

    def check(self, got: dict[Any, Any], wanted: dict[Any, Any]) -> None:
        """Compare an answer with that of one partition without faults, and with the oracle."""
        close = 0.0 if PROGRAMS[self.name].exact else CLOSE
        assert got.keys() == wanted.keys()
        for v, row in wanted.items():
            assert got[v].keys() == row.keys()
            for name, value in row.items():
                assert near(got[v][name], value, close), (v, got[v], row)
        oracle = PROGRAMS[self.name].oracle
        if oracle is not None and not self.strings:
            rows = [(a, b, x) for (a, b), x in self.edges.items()]
            origin = [x for k, x in self.params.items() if k == "origin"]
            right = expected(oracle, rows, origin, self.params, undirected=self.undirected)
            for name, values in right.items():
                for v, value in values.items():
                    assert near(got[v][name], value, 1e-9), (v, got[v], value)


def draw_case(chance: random.Random, *, loop: bool, names: Iterable[str] = PROGRAMS) -> Case:
    """Draw one of these programs, a graph and options."""
    case = Case(
        name=chance.choice(sorted(names)), edges={}, strings=chance.random() < 0.4,
        undirected=chance.random() < 0.4, partitions=chance.randint(2, 5), options={},
    )  # fmt: skip
    ids = [case.id(k) for k in range(VERTICES)]
    while not case.edges:
        random_rows(
            chance, case.edges, chance.randint(5, 40), undirected=case.undirected, vertices=ids
        )
    case.options["compiled"] = case.name != "events" and chance.choice(["require", False])
    if case.name in ("wcc", "sssp", "bfs", "lengths"):
        case.options["delay_bound"] = chance.choice([1, 1, "auto", 3, 1000])
    elif case.name == "pagerank":
        case.options["delay_bound"] = 1
    if not loop and chance.random() < 0.2:
        case.options["exchange"] = chance.choice(["auto", "shuffle"])
        case.options["delay_bound"] = 1
    if not loop and chance.random() < 0.3:
        case.options["commit_every"] = chance.randint(1, 3)
    if loop:
        case.length = chance.choice([None, 4.0, 20.0])
    return case


def simulate_run(seed: int, faults: Faults = OFTEN) -> Simulator:
    """Make a run which a seed stands for; return what simulated it.

    Raises:
        AssertionError: the answer is wrong.
    """
    chance = random.Random(seed)
    case = draw_case(chance, loop=False)
    simulator = Simulator(seed, faults)
    options, snapshots = dict(case.options), random.Random(seed + 1)
    if options.get("delay_bound", 1) == 1 and snapshots.random() < 0.5:
        options |= {"snapshot_every": snapshots.randint(1, 2), "trusted": True}
    with simulator.installed(), stored_at_once():
        got = case.answer(case.partitions, **options)
    compiled = {k: x for k, x in case.options.items() if k == "compiled"}
    case.check(got, case.answer(1, **compiled))
    return simulator


def simulate_loop(
    seed: int, url: str, faults: Faults = ROUGH, names: Iterable[str] = PROGRAMS
) -> Simulator:
    """Make a history of a main loop which a seed stands for; return what simulated it.

    Args:
        url: of an empty store.
        faults: what goes wrong.
        names: of the programs that it may be of.

    Raises:
        AssertionError: an answer is wrong.
    """
    chance = random.Random(seed)
    case = draw_case(chance, loop=True, names=names)
    script = chance.randrange(2**32)
    edges = dict(case.edges)
    with _loop(case, 1, f"{url}-plain", None) as main:
        wanted = list(_answers(case, main, random.Random(script)))
    case.edges = edges
    simulator = Simulator(seed, faults)
    snapshots = random.Random(seed + 1)
    with simulator.installed(), _loop(case, case.partitions, url, snapshots) as main:
        for number, got in enumerate(_answers(case, main, random.Random(script))):
            case.check(got, wanted[number])
    assert number == len(wanted) - 1
    return simulator


class _Loop:
    """A main loop that may be resumed.

    Args:
        chance: draws when it takes snapshots, and with how many partitions it goes on; None for a
            loop which does neither.
    """

    def __init__(self, case: Case, partitions: int, url: str, chance: random.Random | None) -> None:
        self.case, self.url, self.chance = case, url, chance
        self.main = MainLoop(
            case.program, case.graph(partitions), params=case.params, backend=url, loop="m",
            **case.options, **self._snapshots(),
        )  # fmt: skip
        if case.length is not None:
            self.main.window(case.length)

    def _snapshots(self) -> dict[str, Any]:
        if self.chance is None:
            return {}
        return {
            "snapshot_every": self.chance.choice([None, 1, 3, 9]),
            "snapshots": "synchronous",  # a thread would have the same seed do other things
        }

    def resume(self) -> None:
        """Resume it from the store, closed or as if its process had been killed."""
        partitions, before = None, self.main
        if self.chance is None or self.chance.random() < 0.5:
            before.close()
        elif self.chance.random() < 0.5:
            self.main.snapshot()
        if self.chance is not None and self.chance.random() < 0.4:
            partitions = self.chance.randint(1, 5)
        trusted = self.case.name == "events"
        self.main = MainLoop.resume(
            None, self.case.program, backend=self.url, loop="m", trusted=trusted,
            partitions=partitions, **self.case.options, **self._snapshots(),
        )  # fmt: skip
        before.close()  # it was fenced, so nothing of it is stored any more

    def rescale(self) -> None:
        """Now and then go on with another number of partitions."""
        if self.chance is not None and self.chance.random() < 0.15:
            self.main.rescale(self.chance.randint(1, 5))


@contextlib.contextmanager
def _loop(case: Case, partitions: int, url: str, chance: random.Random | None) -> Iterator[_Loop]:
    loop = _Loop(case, partitions, url, chance)
    try:
        yield loop
    finally:
        loop.main.close()


def _answers(case: Case, loop: _Loop, chance: random.Random) -> Iterator[dict[Any, Any]]:
    """Tell a loop what a script says; return its answers, with `case.edges` as they are then."""
    budgets: list[Budget | None] = [None, Budget(2), Budget(seconds=0.05)]

    model = Window(case.length or math.inf, case.undirected, edges=dict(case.edges))

    def rows(count: int) -> list[Any]:
        ids, edges = [case.id(k) for k in range(VERTICES + 3)], dict(model.edges)
        return random_rows(chance, edges, count, undirected=case.undirected, vertices=ids)

    def ingest(changes: list[Any]) -> None:
        """With a window, give some changes a time before others that came."""
        times = [0.0] * len(changes)
        if case.length is not None:
            now = max(model.clock, 0.0)
            times = [now + chance.choice([0, 0, 1, 2, -1, -3]) for _ in changes]
        loop.main.ingest(case.changes(changes), time=None if case.length is None else times)
        for (sign, source, target, *value), time in zip(changes, times, strict=True):
            model.take([(sign, source, target, value[0] if value else None, time)])

    def answer(query: Callable[[], Any]) -> dict[Any, Any]:
        case.edges = dict(model.edges)
        with contextlib.closing(query()) as result:
            return dict(result.rows())

    for _ in range(STEPS):
        loop.main.budget = chance.choice(budgets)
        ingest(rows(chance.randint(1, 6)))
        loop.rescale()
        what = chance.choice(["query", "query", "resume", "fork", "nested", "merge"])
        if what == "resume":
            loop.resume()
        elif what != "query":
            before = model.copy()
            with loop.main.fork() as branch:
                changes = rows(3)
                branch.apply(case.changes(changes))
                model.apply(changes)
                yield answer(branch.result)
                if what == "nested":
                    with branch.fork() as second:
                        changes = rows(2)
                        second.apply(case.changes(changes))
                        model.apply(changes)
                        yield answer(second.result)
                if what == "merge":
                    branch.merge()
                else:
                    model = before
        yield answer(loop.main.query)


def soak_simulated(histories: int, seed: int) -> str:
    """Make so many runs, and histories of main loops; what they did, in words.

    The one with number k is that of seed + k: `simulate_run` and `simulate_loop` make it again.

    Raises:
        AssertionError: an answer is wrong.
    """
    faulted: Counter[str] = Counter()
    messages = losses = 0
    for number in range(seed, seed + histories):
        for loop in (False, True):
            try:
                if loop:
                    with tempfile.TemporaryDirectory(prefix="vertexsdk-soak-") as place:
                        simulator = simulate_loop(number, f"lmdb://{place}/store")
                else:
                    simulator = simulate_run(number)
            except BaseException:
                print(f"{'simulate_loop' if loop else 'simulate_run'}({number}) fails")
                raise
            faulted.update(simulator.faulted)
            messages, losses = messages + simulator.messages, losses + simulator.losses
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(faulted.items()))
    return (
        f"{histories} runs and histories, {messages} messages, {losses} processors lost; "
        f"messages and steps: {found}; every answer was right"
    )
