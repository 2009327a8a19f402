"""Real processors under the simulator, compared with pure models after every superstep.

What the models get is what the processors send each other, or the program and the graph alone.
"""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest

from tests.support.inprocess import InProcess
from tests.support.mutations import mutated
from tests.support.reference import reference
from tests.support.seeds import seed
from tests.support.simulated_histories import ROUGH, Case, draw_case
from tests.support.simulated_network import Faults
from tests.support.simulator import Simulator
from tests.support.watching import Broken, Watch, watched
from vertexsdk import Graph, MainLoop, RunError, read, run
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.engine.iterations import Iterations, make_master
from vertexsdk.engine.master import Master
from vertexsdk.engine.pace import Pace
from vertexsdk.program.program import Program
from vertexsdk.testing.oracles import near
from vertexsdk.transport.worker_hops import Number

SMOOTH = Faults(late=0.05, repeated=0.1, disconnected=0.03, slow=0.03)


@dataclass
class Ends:
    """What processors tell each other at the ends of supersteps, in their order.

    Attributes:
        task: the last one that sent something.
        blocks: (source, block) on their way to each partition, by superstep.
    """

    partitions: int
    task: Any = None
    blocks: dict[int, list[list[tuple[int, bytes]]]] = field(default_factory=dict)
    _told: dict[int, dict[int, Any]] = field(default_factory=lambda: defaultdict(dict))

    def __call__(self, task: Any, destination: int, number: Number, parts: list[bytes]) -> None:
        """See `Simulator.observers`."""
        self.task = task
        came = self.blocks.setdefault(number.superstep, [[] for _ in range(self.partitions)])
        end, *blocks = (parts or [b""]) if number.ends else [b"", *parts]  # none: it failed
        came[destination] += [(number.source, block) for block in blocks]
        if end:
            self._told[number.superstep][number.source] = pickle.loads(end)

    def whole(self) -> list[list[Any]]:
        """The ends of all partitions, for each superstep that all have ended."""
        rows = [row for _, row in sorted(self._told.items()) if len(row) == self.partitions]
        return [[row[p] for p in range(self.partitions)] for row in rows]


def small(number: int, names: list[str]) -> Case:
    """A case of one of these programs, with integer ids."""
    chance = random.Random(number)
    case = draw_case(chance, loop=True)
    while case.name not in names or case.strings:
        case = draw_case(chance, loop=True)
    return case


@pytest.mark.parametrize("name", ["wcc", "sssp", "cdlp", "pagerank", "walks"])
def test_every_superstep_is_that_of_the_reference(name: str) -> None:
    number = seed()
    case = small(number, [name])
    params = {**case.params, **({"epsilon": 1e-3} if name == "pagerank" else {})}
    url = f"memory://steps-{number}"
    options = {"compiled": case.options["compiled"], "delay_bound": 1, "commit_every": 1}
    with Simulator(number, ROUGH).installed():
        graph = case.graph(case.partitions)
        with closing(
            run(case.program, graph, params=params, backend=url, loop="m", progress=False,
                **options)
        ) as result:  # fmt: skip
            last = result.iteration
    rows = [(a, b, x) for (a, b), x in case.edges.items()]
    named = [params["origin"]] if "origin" in params else []
    for k in range(1, last + 1):
        model = reference(
            Program(case.program), rows, named, params, undirected=case.undirected,
            max_iterations=k,
        )  # fmt: skip
        with closing(read(url, "m", at=k)) as result:
            assert result.iteration == k
            state = dict(result.rows())
        assert state.keys() == model.state.keys()
        for v, row in model.state.items():
            for column, value in row.items():
                assert near(state[v][column], value, 1e-12), (k, v, state[v], row)


@pytest.mark.parametrize("name", ["wcc", "pagerank", "walks"])
def test_processors_and_driver_decide_as_the_pure_master(name: str) -> None:
    number = seed()
    case = small(number, [name])
    simulator, ends = Simulator(number, SMOOTH), Ends(case.partitions)
    simulator.observers.append(ends)
    states: dict[int | None, list[Any]] = defaultdict(list)
    advance = Master.advance

    def noted(master: Master, progress: Any) -> bool:
        more = advance(master, progress)
        states[simulator.running].append(_state(master, progress))
        return more

    with simulator.installed(), mock.patch.object(Master, "advance", noted):
        case.answer(case.partitions, compiled=False, delay_bound=1)
    vertices = len({v for edge in case.edges for v in edge} | set(case.params.values()))
    model = make_master(ends.task.plan, vertices)
    found = []
    for row in ends.whole():
        progress = model.total(end.progress for end in row)
        model.advance(progress)
        found.append(_state(model, progress))
    assert found
    assert found[-1][2] is not None  # why the run has ended
    assert states == dict.fromkeys(range(case.partitions), found)


def _state(master: Master, progress: Any) -> Any:
    counts = progress.updates, progress.changed, progress.messages, progress.pending
    return master.iteration, dict(master.aggregates), master.reason, counts, progress.sent


@pytest.mark.parametrize("bound", [2, 3, 1000])
def test_processors_hear_of_the_same_frontiers_in_the_same_order(bound: int) -> None:
    number = seed()
    case = small(number, ["wcc", "sssp", "bfs"])
    case.options |= {"delay_bound": bound, "compiled": False}
    simulator = Simulator(number, SMOOTH)
    heard: dict[int | None, list[int]] = defaultdict(list)
    announce = Pace._announce

    def noted(pace: Pace, tau: int) -> None:
        announce(pace, tau)
        heard[simulator.running].append(tau)

    with simulator.installed(), mock.patch.object(Pace, "_announce", noted):
        graph = case.graph(case.partitions)
        url = f"memory://rounds-{number}"
        with (
            MainLoop(
                case.program, graph, params=case.params, backend=url, **case.options
            ) as main,
            closing(main.query()) as result,
        ):  # fmt: skip
            got = dict(result.rows())
    case.check(got, case.answer(1, compiled=False))
    assert [heard[p] for p in range(case.partitions)] == [heard[0]] * case.partitions


@dataclass
class _World:
    """The graph of a run that is watched: see `watched`."""

    rows: Any
    inbox: list[list[tuple[int, bytes]]]


def bounded(number: int) -> Watch:
    """Make a run with a delay bound; every rule of the protocol is checked at every step."""
    chance = random.Random(number)
    n, bound, partitions = chance.choice([40, 60]), chance.choice([2, 3, 8]), chance.randint(2, 3)
    edges = [(k, (k + chance.choice([-2, -1, 1, 2])) % n, chance.randint(1, 64) / 8)
             for k in range(n) for _ in range(3)]  # fmt: skip
    name = chance.choice(["wcc", "sssp"])
    params = {"origin": edges[0][0]} if name == "sssp" else {}
    program = Program(ALGORITHMS[name])
    world: Any = _World(InProcess(program, edges).rows, [[] for _ in range(partitions)])
    simulator, conclude = Simulator(number, SMOOTH), Iterations._conclude_pace

    def noted(iterations: Iterations, received: Any, ends: Any) -> None:
        conclude(iterations, received, ends)
        world.inbox[iterations.processor.partition] = received

    with (
        simulator.installed(),
        watched(world, bound) as watch,
        mock.patch.object(Iterations, "_conclude_pace", noted),
    ):
        columns = zip(*edges, strict=True)
        graph = Graph.from_arrays(*columns, partitions=partitions, partitioner="ldg")
        with closing(
            run(program, graph, params=params, backend="memory://bounded", compiled=False,
                delay_bound=bound, progress=False)
        ):  # fmt: skip
            pass
    return watch


def test_bounded_iterations_keep_the_rules_of_the_protocol() -> None:
    first = seed()
    assert sum(len(bounded(first + k).commits) for k in range(10)) > 100


@pytest.mark.parametrize(
    "mistake",
    ["never released", "the bound is one more", "updates on their way are not counted"],
)
def test_a_mistake_in_the_protocol_is_seen(mistake: str) -> None:
    with mutated(mistake), pytest.raises((Broken, RunError)):
        _ = [bounded(number) for number in range(30)]
