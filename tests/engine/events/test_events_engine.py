"""Programs of the events level over a graph that changes, in this process."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from tests.engine.events.events_programs import (
    Least,
    PaperPaths,
    Recorder,
    Says,
    Steps,
    Weights,
    both_ways,
    lengths,
    weights,
)
from tests.support.event_hops import engine_in_process, mail_of, state_of, targets_of
from tests.support.events import random_events_program
from tests.support.graphs import random_graph
from tests.support.random_changes import Edges, random_rows
from tests.support.reference import reference
from vertexsdk import (
    INT_MAX,
    UPDATE,
    Changes,
    Deltas,
    Graph,
    InputError,
    MainLoop,
    RunError,
    Vertex,
    aggregate,
    state,
)
from vertexsdk.engine.commands import QUIET, Budget, Command
from vertexsdk.program.program import Program


def column(engine: Any, field: str) -> dict[Any, Any]:
    return {v: row[field] for v, row in state_of(engine).items()}


def take(engine: Any, *rows: Any, **orders: Any) -> Any:
    return engine.execute(Command(Deltas.mixed(rows), **orders))


@pytest.mark.sample(7)
@pytest.mark.parametrize("seed", range(12))
def test_every_sequence_of_changes_leads_to_what_the_oracle_says(seed: int) -> None:
    """With queries now and then, by the loop itself or by a fork, at any number of partitions."""
    rng = random.Random(seed)
    undirected, partitions = bool(seed % 2), (1, 2, 7)[seed % 3]
    edges: Edges = {}
    random_rows(rng, edges, 25, undirected=undirected)
    rows = [(a, b, x) for (a, b), x in edges.items()]
    common: Any = {"partitions": partitions, "undirected": undirected}
    engines = [
        engine_in_process(Program(PaperPaths), rows, params={"origin": 3}, **common),
        engine_in_process(Program(Weights), rows, **common),
    ]
    for step in range(8):
        batch = Changes.of(random_rows(rng, edges, rng.randint(1, 9), undirected=undirected))
        budget = rng.choice([None, Budget(1), Budget(2), QUIET])
        outs = [e.execute(Command(batch, budget=budget)) for e in engines]
        assert outs[0].counts == outs[1].counts | {
            "changed": 0,
            "unchanged": outs[0].counts["unchanged"],
        }
        forks = [e.fork() for e in engines]
        for e in forks:
            assert e.execute(Command(budget=QUIET)).work.quiet
        every = both_ways(edges, undirected=undirected)
        assert column(forks[0], "length") == lengths(every, 3), step
        assert column(forks[1], "total") == weights(every), step
        out = forks[1].execute(Command())
        assert (out.num_vertices, out.num_edges) == (len(weights(every)), len(edges))
        if rng.random() < 0.3:
            engines = [e.adopt(f) or e for e, f in zip(engines, forks, strict=True)]
        for e in forks:
            e.close()
    for e in engines:
        e.close()


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("direction", ["out", "in", "both", "undirected"])
def test_a_first_run_is_that_of_the_reference(partitions: int, direction: str) -> None:
    class Turned(Weights):
        pass

    Turned.direction = direction
    rng = random.Random(partitions)
    edges = [(rng.randrange(9), rng.randrange(9), float(rng.randint(1, 5))) for _ in range(20)]
    if direction == "undirected":  # of which only one of the two ways counts
        edges = [(a, b, x) for a, b, x in edges if a <= b]
    wanted = reference(Turned, edges, [20, 3])
    engine = engine_in_process(Program(Turned), edges, [20, 3], partitions=partitions)
    out = engine.execute(Command(budget=QUIET))
    assert state_of(engine) == wanted.state
    assert out.work.iterations == wanted.iterations
    assert targets_of(engine) == {v: {t: x for t, x, _ in row} for v, row in wanted.targets.items()}
    engine.close()


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_run_as_in_the_reference(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    program = random_events_program(rng).load(tmp_path / f"Random{seed}.py")
    graph = random_graph(rng, vertices=12, edges=30, undirected=False)
    edges = [(a, b, int(x)) for a, b, x in graph.edges]
    params = {"hub": rng.choice(graph.ids)}
    wanted = reference(program, edges, graph.vertices, params)
    for partitions in (1, 3):
        engine = engine_in_process(program, edges, graph.vertices, params, partitions=partitions)
        out = engine.execute(Command(budget=QUIET))
        assert state_of(engine) == wanted.state
        assert (out.work.updates, out.work.messages) == (wanted.updates, wanted.messages)
        engine.close()


def test_changes_come_as_deltas_in_their_order() -> None:
    engine = engine_in_process(Program(Recorder), [(1, 2, 5)], partitions=2)
    engine.execute(Command(budget=QUIET))
    assert column(engine, "log") == {1: "main: 1,1,2", 2: "main:"}
    out = take(
        engine, ("+", 1, 2, 5), ("~", 1, 2, 7), ("send", 1, "NOTE", "a"), ("-", 1, 2),
        ("send", 2, "NOTE", None), ("+", 1, 1, 3), ("-", 4, 5), ("+", 1, 2, 7), budget=QUIET,
    )  # fmt: skip
    assert out.counts == {"added": 2, "removed": 1, "changed": 1, "unchanged": 1, "absent": 1}
    assert out.absent == [4]
    told = "1,1,2 None,NOTE,a 1,2,2 1,1,1 1,1,2"
    assert column(engine, "log") == {1: f"main: 1,1,2 {told}", 2: "main: None,NOTE,None"}
    assert targets_of(engine)[1] == {1: 3, 2: 7}


class Looks(Vertex):
    """Writes down how its targets differ from those at the last scatter."""

    log: str = state("")
    edge = int

    def scatter(self, iteration):
        rows = (self.addedTargets, self.removedTargets, self.retainedTargets)
        self.log = "|".join(",".join(f"{t.id}={t.value}" for t in row) for row in rows)


def test_targets_are_compared_with_those_at_the_last_scatter() -> None:
    engine = engine_in_process(Program(Looks), [(1, 2), (1, 3), (1, 4)], partitions=1)
    engine.execute(Command(budget=QUIET))
    assert column(engine, "log")[1] == "2=1,3=1,4=1||"
    take(engine, ("-", 1, 2), ("+", 1, 2), ("-", 1, 3), ("~", 1, 4, 9), ("+", 1, 5))
    engine.execute(Command(budget=QUIET))
    assert column(engine, "log")[1] == "4=9,5=1|3=1|2=1"


def test_a_vertex_which_a_delta_names_comes_to_be_and_stays() -> None:
    engine = engine_in_process(Program(Recorder), [(1, 2)], partitions=2)
    engine.execute(Command(budget=QUIET))
    out = take(engine, ("send", 9, "HELLO", 1), ("+", 7, 8), budget=QUIET)
    assert out.num_vertices == 5
    assert column(engine, "log")[9] == "main: None,HELLO,1"
    out = take(engine, ("-", 7, 8), ("-", 1, 2), budget=QUIET)
    assert out.num_vertices == 1
    assert list(state_of(engine)) == [9]
    take(engine, ("+", 8, 7), budget=QUIET)
    assert column(engine, "log")[7] == "main: 7,1,8 7,2,8"  # its state had stayed


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_what_is_in_transit_is_part_of_the_version(partitions: int) -> None:
    ring = [(k, (k + 1) % 5) for k in range(5)]
    engine = engine_in_process(Program(Steps), ring, partitions=partitions)
    engine.execute(Command(budget=QUIET))
    out = take(engine, ("send", 0, "START", 9), budget=Budget(3))
    assert (out.work.quiet, out.work.reason) == (False, "max_iterations")
    assert mail_of(engine) == {3: [(2, 0, 6, None)]}
    before = state_of(engine)
    fork = engine.fork()
    assert fork.execute(Command(budget=QUIET)).work.quiet
    assert column(fork, "got") == {0: 9 + 4, 1: 8 + 3, 2: 7 + 2, 3: 6 + 1, 4: 5}
    assert state_of(engine) == before
    assert mail_of(engine) == {3: [(2, 0, 6, None)]}
    second = engine.fork()
    take(second, ("-", 3, 4), budget=QUIET)  # what-if: the message comes to its end there
    assert column(second, "got") == {0: 9, 1: 8, 2: 7, 3: 6, 4: 0}
    out = engine.execute(Command(budget=QUIET))
    assert state_of(engine) == state_of(fork)
    assert out.work.iterations == 6
    again = engine.execute(Command(budget=QUIET))
    assert (again.work.iterations, again.work.quiet) == (0, True)
    for e in (second, fork, engine):
        e.close()


def test_a_branch_knows_its_loop_and_every_vertex_scatters_in_it() -> None:
    engine = engine_in_process(Program(Says), [(1, 2), (2, 3)], partitions=2)
    engine.execute(Command(budget=QUIET))
    assert column(engine, "heard") == {1: "", 2: "", 3: ""}
    fork, other = engine.fork(), engine.fork()
    for e, name in ((fork, "branch-1"), (other, "monday")):
        e.enter(name)
        e.execute(Command(budget=QUIET))
    assert column(fork, "heard") == {1: "", 2: "branch-1", 3: "branch-1"}
    assert column(other, "heard") == {1: "", 2: "monday", 3: "monday"}
    assert column(engine, "heard") == {1: "", 2: "", 3: ""}


def test_batch_processing_as_in_the_figure() -> None:
    """The main loop gathers and sends nothing; every branch begins from there."""
    params = {"origin": 1, "batch": True}
    engine = engine_in_process(Program(PaperPaths), [(1, 2), (2, 3)], params=params, partitions=2)
    for rows in [(), (("-", 1, 2), ("+", 1, 3)), (("+", 3, 2), ("+", 2, 4)), (("-", 1, 3),)]:
        out = take(engine, *rows, budget=QUIET)
        assert out.work.messages == 0
        fork = engine.fork()
        fork.enter("branch")
        fork.execute(Command(budget=QUIET))
        answer = column(fork, "length")
        fork.close()
        edges = {(1, 2): 1.0, (2, 3): 1.0}
        for sign, a, b in itertools.chain(*ROWS[: ROWS.index(rows) + 1]):
            edges.pop((a, b), None) if sign == "-" else edges.update({(a, b): 1.0})
        assert answer == lengths(edges, 1)


ROWS: list[Any] = [(), (("-", 1, 2), ("+", 1, 3)), (("+", 3, 2), ("+", 2, 4)), (("-", 1, 3),)]


@pytest.mark.parametrize("partitions", [1, 2])
def test_vertices_which_support_each_other(partitions: int) -> None:
    """What the events level does not handle by itself; `bounded` is what the program does."""
    edges = [(1, 2), (2, 3), (3, 2)]
    for bounded in (False, True):
        params = {"origin": 1, "bounded": bounded}
        engine = engine_in_process(Program(PaperPaths), edges, params=params, partitions=partitions)
        engine.execute(Command(budget=QUIET))
        assert column(engine, "length") == {1: 0, 2: 1, 3: 2}
        out = take(engine, ("-", 1, 2), budget=Budget(20))
        assert out.work.quiet is bounded
        if bounded:
            assert column(engine, "length") == {1: 0, 2: INT_MAX, 3: INT_MAX}
        else:
            assert column(engine, "length") == {1: 0, 2: 21, 3: 20}  # and so on, for ever


def test_strict_takes_in_nothing() -> None:
    for partitions in (1, 2):
        engine = engine_in_process(Program(Weights), [(1, 2, 3.0)], partitions=partitions)
        engine.execute(Command(budget=QUIET))
        for budget in (None, QUIET):
            out = take(engine, ("+", 2, 3), ("-", 5, 6), strict=True, budget=budget)
            assert (out.absent, out.work.iterations) == ([1], 0)
            assert column(engine, "total") == {1: 0.0, 2: 3.0}
            assert mail_of(engine) == {}
        out = take(engine, ("+", 2, 3), ("-", 2, 3), ("-", 1, 2), ("+", 1, 2, 3.0), strict=True)
        assert out.absent == []
        out = take(engine, ("+", 2, 3), ("-", 5, 6), budget=QUIET)
        assert out.counts["absent"] == 1
        assert column(engine, "total") == {1: 0.0, 2: 3.0, 3: 1.0}


class Fails(Vertex):
    x: int = state(0)

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        self.x = 1 // delta.value if delta.kind == "DIVIDE" else self.x + 1

    def scatter(self, iteration):
        pass


@pytest.mark.parametrize("partitions", [1, 2])
def test_batches_that_fail_leave_the_loop_as_it_was(partitions: int) -> None:
    graph = Graph.from_arrays([1], [2], partitions=partitions)
    with MainLoop(Fails, graph, backend="memory://fails", budget=QUIET, replace=True) as main:
        for _ in range(2):
            with pytest.raises(RunError, match=r"engine\.py:\d+: Fails\.gather: ZeroDivision"):
                main.ingest([("+", 1, 3), ("send", 2, "DIVIDE", 0)])
            assert main.query().to_dict() == {1: 1, 2: 0}
        main.ingest([("send", 2, "DIVIDE", 1)])
        assert main.query().to_dict() == {1: 1, 2: 1}
        with pytest.raises(InputError, match="ids are integers"):
            main.ingest([("+", "a", "b")])
        with pytest.raises(InputError, match="ids are integers"):
            main.ingest([("send", "a", "DIVIDE", 1)])
    with pytest.raises(InputError, match="closed"):
        main.query()


class Limited(Steps):
    max_iterations = 3


def test_a_limit_of_iterations_holds_for_each_time_that_something_comes_in() -> None:
    ring = [(k, (k + 1) % 5) for k in range(5)]
    engine = engine_in_process(Program(Limited), ring)
    assert engine.execute(Command(budget=QUIET)).work.reason == "quiet"
    for _ in range(2):
        out = take(engine, ("send", 0, "START", 9), budget=QUIET)
        assert (out.work.iterations, out.work.reason) == (3, "max_iterations")
        assert out.work.quiet


def test_strings_of_which_new_ones_come() -> None:
    for partitions in (1, 2, 7):
        engine = engine_in_process(Program(Least), [("m", "n"), ("n", "o")], partitions=partitions)
        engine.execute(Command(budget=QUIET))
        assert column(engine, "least") == {"m": "m", "n": "m", "o": "m"}
        take(engine, ("+", "a", "n"), ("+", "x", "y"), budget=QUIET)
        assert column(engine, "least") == {
            "a": "a",
            "m": "m",
            "n": "a",
            "o": "a",
            "x": "x",
            "y": "x",
        }


class Drains(Vertex):
    """Gathers in every iteration, and passes on half of what it has until all have little."""

    amount: int = state(0)
    most = aggregate(max, int)
    seen: int = state(0)
    always = True

    def init(self):
        self.amount = 100 if self.id == 1 else 0

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        if delta.kind == UPDATE:
            self.amount += delta.value

    def scatter(self, iteration):
        self.seen = self.most.value
        for target in self.targets:
            share = self.amount // 3
            self.amount -= share
            self.emit(target, share)
        self.most.contribute(self.amount)

    def converged(self, iteration, aggregates):
        return aggregates.most < 20 * self.num_vertices


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_rule_over_aggregates_ends_each_time(partitions: int) -> None:
    edges = [(1, 2), (2, 3), (3, 1), (2, 4)]
    wanted = reference(Drains, edges)
    engine = engine_in_process(Program(Drains), edges, partitions=partitions)
    out = engine.execute(Command(budget=QUIET))
    assert (out.work.reason, out.work.iterations) == ("converged", wanted.iterations)
    assert state_of(engine) == wanted.state
    assert out.aggregates == wanted.aggregates
    assert engine.execute(Command(budget=QUIET)).work.iterations == 0
    out = take(engine, ("-", 3, 1), budget=QUIET)
    assert out.work.reason == "converged"
    assert out.work.iterations >= 1
    in_transit = sum(
        x for row in mail_of(engine).values() for _, kind, x, _ in row if kind == UPDATE
    )
    assert sum(column(engine, "amount").values()) + in_transit == 100


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_merge_of_a_branch_that_did_nothing_keeps_what_was_written(partitions: int) -> None:
    url = f"memory://merged-{partitions}"
    options: dict[str, Any] = {"backend": url, "trusted": True, "snapshot_every": 2}
    graph = Graph.from_arrays(["b", "c"], ["c", "d"], [7.0, 2.0], partitions=partitions)
    with MainLoop(Weights, graph, **options) as main:
        main.ingest([("+", "d", "a", 4.0), ("+", "a", "d", 5.0), ("-", "b", "c")])
        main.query().close()
    with MainLoop.resume(None, Weights, **options) as again:
        branch = again.fork()
        again.query().close()  # names have other codes now, and so the state is written whole
        branch.result().close()
        branch.merge()
        again.ingest([("+", "e", "a", 1.0)])
        rows = [(v, row["total"]) for v, row in again.query().rows()]
        assert rows == [("a", 5.0), ("c", 0.0), ("d", 7.0), ("e", 0.0)]
        branch.close()


class Appends(Vertex):
    """Sends its list, and goes on to change it."""

    log: list = state([])
    heard: str = state("")

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        if delta.kind == UPDATE:
            self.heard = str(delta.value)
            delta.value.append(self.id)
        self.log.append(iteration)

    def scatter(self, iteration):
        self.emitAll(self.log)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_message_is_the_receivers_own_object(partitions: int) -> None:
    edges = [(1, 2), (1, 3), (3, 4)]
    engine = engine_in_process(Program(Appends), edges, partitions=partitions)
    engine.execute(Command(budget=QUIET))
    assert column(engine, "heard") == {1: "", 2: "[1, 1]", 3: "[1, 1]", 4: "[1, 2]"}


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_merge_begins_no_branch(partitions: int) -> None:
    engine = engine_in_process(Program(Says), [(1, 2), (2, 3)], partitions=partitions)
    engine.execute(Command(budget=QUIET))
    fork = engine.fork()
    fork.enter("branch-1")
    fork.execute(Command(budget=QUIET))
    engine.adopt(fork)
    out = engine.execute(Command(budget=QUIET))
    assert (out.work.iterations, out.work.messages) == (0, 0)
    assert column(engine, "heard") == {1: "", 2: "branch-1", 3: "branch-1"}
