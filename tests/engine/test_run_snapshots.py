"""Runs that are interrupted at a random superstep and go on from their newest snapshot."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.support.events import random_events_program
from tests.support.graphs import random_graph
from tests.support.programs import random_program
from tests.support.seeds import seed
from tests.support.simulated_histories import PROGRAMS, Case, draw_case
from tests.support.stored_at_once import stored_at_once
from vertexsdk import Graph, Latest, Vertex, run, state
from vertexsdk.algorithms import BreadthFirstSearch, PageRank
from vertexsdk.engine import run_partition
from vertexsdk.engine.iterations import Iterations
from vertexsdk.errors import InputError, LostError, RunError, VertexError
from vertexsdk.state import open_store
from vertexsdk.testing.oracles import near

pytestmark = pytest.mark.filterwarnings("ignore::vertexsdk.program.warn.ProgramWarning")
Rows = dict[Any, dict[str, Any]]
COUNTS = ("iterations", "updates", "messages", "bytes", "num_vertices", "reason")
KINDS: dict[str, Callable[[random.Random], Any]] = {
    "pure": partial(random_program, always=False),
    "always": partial(random_program, always=True),
    "latest": partial(random_program, algebra="latest"),
    "vectors": partial(random_program, algebra="latest vectors"),
    "events": random_events_program,
}


@pytest.fixture(autouse=True)
def _stored_at_once() -> Iterator[None]:
    with stored_at_once():
        yield


class Drawn:
    """A random program, a graph, and how to run it."""

    def __init__(self, kind: str, number: int, directory: Path) -> None:
        chance = random.Random(number)
        made = KINDS[kind](chance)
        self.program = made.load(directory / f"{kind}_{number}.py")
        graph = random_graph(chance, vertices=20, edges=60)
        while not graph.edges:
            graph = random_graph(chance, vertices=20, edges=60)
        whole = self.program.classes[0].cls.edge is int
        self.name, self.undirected = self.program.classes[0].file, graph.undirected
        self.files = [str(directory / f"{kind}-{number}.{what}") for what in ("edges", "kinds")]
        edges = [(s, t, int(x * 8) if whole else x) for s, t, x in graph.edges]
        Path(self.files[0]).write_text("".join(f"{s} {t} {x}\n" for s, t, x in edges))
        kinds = [f"{v} {chance.choice(made.kinds)}\n" for v in graph.ids]
        Path(self.files[1]).write_text("".join(kinds))
        self.params = {"hub": chance.choice(graph.ids)}
        self.partitions = chance.choice([1, 2, 3, 5])
        self.options = {"seed": chance.randrange(99), "commit_every": chance.choice([None, 2])}

    def run(self, url: str, partitions: int, **options: Any) -> tuple[Rows, dict[str, Any]]:
        graph = Graph.read(
            None, *self.files, undirected=self.undirected, partitions=partitions, format="text"
        )
        return finished(
            self.program, graph, params=self.params, backend=url, compiled=False, **self.options,
            **options,
        )  # fmt: skip


NAMES = tuple(name for name in PROGRAMS if name not in ("walks", "events"))


class BuiltIn:
    """A built-in algorithm, compiled."""

    def __init__(self, number: int, names: Sequence[str] = NAMES) -> None:
        chance = random.Random(number)
        self.case: Case = draw_case(chance, loop=False)
        while self.case.name not in names:
            self.case = draw_case(chance, loop=False)
        self.name = self.case.name
        self.partitions = chance.choice([1, self.case.partitions])

    def run(self, url: str, partitions: int, **options: Any) -> tuple[Rows, dict[str, Any]]:
        graph = self.case.graph(partitions)
        return finished(self.case.program, graph, params=self.case.params, backend=url, **options)


def finished(program: Any, graph: Graph, **options: Any) -> tuple[Rows, dict[str, Any]]:
    try:
        result = run(program, graph, progress=False, trusted=True, **options)
        with contextlib.closing(result):
            return dict(result.rows()), result.statistics
    finally:
        graph.unpersist()


@contextlib.contextmanager
def interrupted(iteration: int, partition: int, error: Exception) -> Iterator[None]:
    """Have a partition fail, once, in an iteration."""
    compute = Iterations._compute
    left = [error]

    def once(self: Iterations, *arguments: Any) -> Any:
        if left and (self.processor.partition, self.master.iteration) == (partition, iteration):
            raise left.pop()
        return compute(self, *arguments)

    with mock.patch.object(Iterations, "_compute", once):
        yield
    assert not left


def check(drawn: Any, number: int, what: str) -> tuple[int | None, str]:
    """Interrupt a run and let it go on; return where it went on, and what was wrong."""
    chance = random.Random(number)
    url, partitions = f"memory://snapshots-{what}-{number}", drawn.partitions
    wanted, counts = drawn.run(f"{url}-whole", partitions)
    every = chance.randint(1, 2)
    if counts["iterations"] <= 2 * every + 1:
        return None, ""
    options = {"snapshot_every": every}
    # a snapshot is committed with the report of the command that took it
    at = chance.randint(2 * every + 1, counts["iterations"])
    victim = chance.randrange(partitions)
    if chance.random() < 0.5:
        with interrupted(at, victim, LostError("an executor was lost")):
            got, found = drawn.run(url, partitions, **options)
    else:
        with interrupted(at, victim, RuntimeError("killed")), pytest.raises(RunError):
            drawn.run(url, partitions, **options)
        got, found = drawn.run(url, partitions, resume=True, **options)
    assert every <= found["resumed_at"] < at
    wrong = [name for name in COUNTS if found[name] != counts[name]]
    if not equal(got, wanted):
        wrong.append("state")
    with open_store(url) as store:
        assert len(store.loops()) == 1
        assert store.verify() == []
        assert not [key for key in store.backend.list_segments() if key.loop not in store.loops()]
    return found["resumed_at"], ", ".join(wrong)


def equal(got: Rows, wanted: Rows) -> bool:
    """Whether states are the same, bit for bit."""
    if got.keys() != wanted.keys():
        return False
    return all(
        got[v].keys() == row.keys() and all(near(got[v][k], x, 0.0) for k, x in row.items())
        for v, row in wanted.items()
    )


@pytest.mark.parametrize("kind", [*KINDS, "built-in"])
@pytest.mark.sample(1)
def test_a_run_goes_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    resumed = 0
    for number in itertools.count(seed()):
        drawn: Any = BuiltIn(number) if kind == "built-in" else Drawn(kind, number, tmp_path)
        at, wrong = check(drawn, number, kind)
        assert not wrong, (number, drawn.name, drawn.partitions, at, wrong)
        resumed += at is not None
        if resumed == 2:
            break


# What a snapshot has to have: without it, some run ends otherwise.
LEFT_OUT: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "who gathers next": lambda columns, meta: (
        columns.update(pending=columns["pending"][:0]) or meta.update(all_pending=False)
    ),
    "messages": lambda columns, meta: columns["msg"].fill(0),
    "combined messages": lambda columns, meta: columns["agg"].fill(0),
    "aggregates": lambda columns, meta: columns.update(
        {name: x * 0 for name, x in columns.items() if name.startswith("aggregate.")}
    ),
    "the iteration": lambda columns, meta: meta.update(iteration=meta["iteration"] + 1),
    "changes of the graph": lambda columns, meta: meta.update(changed=False),
}


@pytest.mark.parametrize("what", LEFT_OUT)
@pytest.mark.sample(1)
def test_what_is_left_out_of_a_snapshot_is_missed(what: str, tmp_path: Path) -> None:
    captured = run_partition.captured

    def damaged(*arguments: Any) -> Any:
        columns, meta = captured(*arguments)
        LEFT_OUT[what](columns, meta)
        return columns, meta

    with mock.patch("vertexsdk.engine.run_partition.captured", damaged):
        first, missed = seed(), ""
        for number in range(first, first + 100):
            if what == "aggregates":
                drawn: Any = BuiltIn(number, ["pagerank"])
            else:
                drawn = Drawn("always" if number % 2 else "pure", number, tmp_path)
                if "graph" in what and "Target(" not in Path(drawn.name).read_text():
                    continue
            try:
                missed = check(drawn, number, "damaged")[1]
            except VertexError as error:
                missed = str(error)
            if missed:
                break
        assert missed


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["built-in", "events"])
def test_a_run_goes_on_with_another_number_of_partitions(kind: str, tmp_path: Path) -> None:
    resumed = 0
    for number in itertools.count(seed()):
        drawn: Any = BuiltIn(number) if kind == "built-in" else Drawn(kind, number, tmp_path)
        url = f"memory://rescaled-{kind}-{number}"
        wanted, counts = drawn.run(f"{url}-whole", drawn.partitions)
        if counts["iterations"] < 4:
            continue
        at = random.Random(number).randint(3, counts["iterations"])
        with interrupted(at, 0, RuntimeError("killed")), pytest.raises(RunError):
            drawn.run(url, drawn.partitions, snapshot_every=1)
        partitions = random.Random(number).choice([p for p in range(1, 6) if p != drawn.partitions])
        got, found = drawn.run(url, partitions, resume=True)
        assert 1 <= found["resumed_at"] < at
        assert found["partitions"] == partitions
        close = 1e-12 if drawn.name == "pagerank" else 0.0
        assert got.keys() == wanted.keys()
        for v, row in wanted.items():
            for name, value in row.items():
                assert near(got[v][name], value, close), (number, drawn.name, v, name)
        resumed += 1
        if resumed == 2:
            break


@pytest.mark.parametrize("name", ["cores", "prioritised"])
def test_a_round_goes_on_with_another_number_of_partitions(name: str) -> None:
    """The vertices that it has changed scatter once more, wherever they are."""
    resumed = 0
    for number in itertools.count(seed()):
        drawn = BuiltIn(number, [name])
        wanted, counts = drawn.run(f"memory://rounds-{number}", drawn.partitions)
        for at in range(3, counts["iterations"] + 1):
            url = f"memory://rounds-{number}-{at}"
            with interrupted(at, 0, RuntimeError("killed")), pytest.raises(RunError):
                drawn.run(url, drawn.partitions, snapshot_every=1)
            got, statistics = drawn.run(url, drawn.partitions % 3 + 1, resume=True)
            assert 1 <= statistics["resumed_at"] < at
            assert equal(got, wanted), (number, drawn.partitions, at)
            resumed += 1
        if resumed >= 10:
            break


class Trails(Vertex):
    """Sends each target something of its own, and keeps what came last."""

    length: int = state(0)
    messages = Latest(int)
    max_iterations = 9

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        self.length = (self.length + delta.values[0]) % 97

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.length + target.id + iteration)


RING = [*range(12)], [*range(1, 12), 0]


def killed(program: Any, url: str, at: int = 5, partitions: int = 2, **options: Any) -> None:
    with interrupted(at, 0, RuntimeError("killed")), pytest.raises(RunError, match="killed"):
        finished(program, ring(partitions), backend=url, snapshot_every=1, **options)


def ring(partitions: int, **options: Any) -> Graph:
    return Graph.from_arrays(*RING, partitions=partitions, **options)


def resumed(program: Any, url: str, graph: Graph, **options: Any) -> dict[str, Any]:
    return finished(program, graph, backend=url, resume=True, **options)[1]


def test_a_snapshot_of_another_run_is_refused() -> None:
    url = "memory://other-runs"
    bfs = {"params": {"origin": 0}}
    killed(BreadthFirstSearch, url, **bfs)
    other = [RING[0], [*RING[1][:-1], 5]]
    for options, graph, what in [
        ({"params": {"origin": 3}}, ring(2), "origin 0 in place of 3"),
        (bfs | {"seed": 7}, ring(2), "seed 0 in place of 7"),
        (bfs, Graph.from_arrays([*RING[0], 0], [*RING[1], 6], partitions=2), "edges 12 in place"),
        (bfs, Graph.from_arrays(*other, partitions=2), "other edges, edge values or classes"),
    ]:
        with pytest.raises(InputError, match=f"snapshot at iteration .*{what}.*resume=True"):
            resumed(BreadthFirstSearch, url, graph, **options)
    where = {v: v % 2 for v in RING[0]}
    assert resumed(BreadthFirstSearch, url, ring(2, partitioner=where), **bfs)["resumed_at"]


def test_where_nothing_can_be_taken_over_by_others_the_number_is_said() -> None:
    url = "memory://per-edge"
    killed(Trails, url)
    with pytest.raises(InputError, match="kept for each edge, so it continues with 2 partitions"):
        resumed(Trails, url, ring(3))
    assert resumed(Trails, url, ring(2))["resumed_at"] == 3


def test_without_a_snapshot_a_run_begins_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    url = "memory://none"
    assert resumed(Trails, url, ring(2))["resumed_at"] is None
    assert "the store has no snapshot of it: begins at iteration 0" in caplog.text
    killed(Trails, url)
    found = finished(Trails, ring(2), backend=url, snapshot_every=1)[1]
    assert found["resumed_at"] is None
    assert "resume=True would continue at iteration 3" in caplog.text


def test_versions_for_readers_stay_when_a_run_goes_on() -> None:
    url = "memory://versions"
    killed(Trails, url, at=7, commit_every=2, loop="l")
    with open_store(url) as store:
        before = [k for k, _ in store.backend.list_versions("l")]
    found = resumed(Trails, url, ring(2), commit_every=2, loop="l")
    assert found["resumed_at"] == 5
    with open_store(url) as store:
        after = [k for k, _ in store.backend.list_versions("l")]
    assert (before, after) == ([2, 4, 6], [2, 4, 6, 8, 9])


@pytest.mark.parametrize("every", [1, "1ms"])
def test_of_a_run_that_ends_no_snapshot_is_left(every: Any) -> None:
    url = f"memory://ended-{every}"
    found = finished(Trails, ring(3), backend=url, snapshot_every=every)[1]
    assert found["snapshots"] > 0 or every != 1
    assert found["iterations"] == 9
    with open_store(url) as store:
        assert store.loops() == ["trails-run"]
        assert store.audit().unreferenced == []


def test_what_cannot_be_is_refused() -> None:
    graph = ring(2)
    for options, what in [
        ({"snapshot_every": 0}, "snapshot_every is 0"),
        ({"snapshot_every": "soon"}, "not a length of time"),
        ({"snapshot_every": 5, "delay_bound": 8}, "a delay bound of 8 has no iterations"),
    ]:
        with pytest.raises(InputError, match=what):
            run("bfs", graph, params={"origin": 0}, backend="memory://refused", **options)
    heard = PROGRAMS["events"].cls
    for options in ({"resume": True}, {"snapshot_every": 1}):
        with pytest.raises(InputError, match=r"pickles.*pass trusted=True"):
            run(heard, graph, backend="memory://refused", **options)
    found = finished("bfs", graph, params={"origin": 0}, backend="memory://refused",
                     snapshot_every=1, delay_bound="auto")[1]  # fmt: skip
    assert found["delay_bound"] == 1
    assert "snapshots" in found["delay_bound_reason"]


def test_a_loop_of_the_name_of_snapshots_is_left_alone() -> None:
    url = "memory://taken"
    finished(PageRank, ring(1), backend=url, loop="x.snapshot")
    finished(PageRank, ring(1), backend=url, loop="x")
    with pytest.raises(InputError, match=r"has a loop 'x\.snapshot'"):
        finished(PageRank, ring(1), backend=url, loop="x", snapshot_every=1)
    with open_store(url) as store:
        assert store.head("x.snapshot") is not None
