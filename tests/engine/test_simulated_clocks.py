"""Time budgets where each processor has another clock: that of processor 0 counts, for all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from tests.engine.events.events_programs import Least
from tests.support.seeds import seed, seeds_until
from tests.support.simulated_clocks import Clock, in_step_of, simulated_time
from tests.support.simulated_histories import Walks
from tests.support.simulated_network import Faults
from tests.support.simulator import Deadlock, Simulator
from vertexsdk import Budget, Graph, MainLoop, RunError, Vertex
from vertexsdk.algorithms import ConnectedComponents, PageRank
from vertexsdk.engine import incremental_partition, iterations
from vertexsdk.engine.supersteps import Steps, end_superstep
from vertexsdk.transport.transport import Blocks

N = 16
RING = [*range(N)], [*range(1, N), 0], [1.0] * N
SEEN = "ended before the others did|do not answer"  # one waits for others which have ended
WAYS: dict[str, tuple[type[Vertex], dict[str, Any]]] = {
    "incremental": (ConnectedComponents, {}),
    "sums": (PageRank, {"params": {"epsilon": 1e-9, "damping": 0.5}}),
    "from init": (Walks, {"max_iterations": 12}),
    "bounded": (ConnectedComponents, {"delay_bound": 3}),
    "events": (Least, {}),
}


def budgeted(number: int, way: str) -> tuple[Simulator, int]:
    """Give a loop and its branches time budgets of all sizes; return how many ended iterations."""
    program, options = WAYS[way]
    simulator = Simulator(number, Faults(slow=0.1))
    url, cut = f"memory://clocks-{number}", 0
    with simulator.installed():
        graph = Graph.from_arrays(*RING, partitions=2 + number % 3)
        with MainLoop(program, graph, backend=url, compiled=False, replace=True, **options) as main:
            for k in range(4):
                main.budget = Budget(seconds=10.0 ** (k - 4))
                main.ingest([("+", k, N + k, 1.0)])
                with main.fork() as branch:
                    branch.start(timeout=10.0 ** (k - 4))
                    try:
                        branch.result().close()
                    except RunError as error:
                        if "met its time limit" not in str(error):
                            raise
                        cut += 1
            with closing(main.query()) as result:
                got = dict(result.rows())
    edges = [*RING[0], *range(4)], [*RING[1], *range(N, N + 4)], [1.0] * (N + 4)
    with (
        MainLoop(
            program, Graph.from_arrays(*edges), backend=f"{url}-plain", compiled=False, **options
        ) as main,
        closing(main.query()) as result,
    ):
        for v, row in result.rows():
            assert got[v] == pytest.approx(row, rel=1e-6), v
    return simulator, cut


def ends(simulator: Simulator) -> Iterator[Counter[str]]:
    """How many supersteps each processor ended, by command."""
    counts: Counter[str] = Counter()
    for line in simulator.trace:
        first, *rest = line.split()
        if first == "command":
            yield counts
            counts = Counter()
        elif rest and rest[0] == "sends":
            counts[first] += 1
    yield counts


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sample(1)
def test_all_end_at_the_same_superstep(way: str) -> None:
    happened: Counter[str] = Counter()
    for number in seeds_until(happened, {"cut": 1}, 5):
        simulator, cut = budgeted(number, way)
        for counts in ends(simulator):
            assert len(set(counts.values())) <= 1, counts
        happened["cut"] += cut


@contextmanager
def own_clocks() -> Iterator[None]:
    """Have each processor end its iterations when its own clock says so."""

    def end(blocks: Blocks, own: Any) -> Steps[tuple[Blocks, list[Any]]]:
        received, told = yield from end_superstep(blocks, own)
        return received, [replace(told[0], late=own.late), *told[1:]]

    with ExitStack() as stack:
        for module in (iterations, incremental_partition):
            stack.enter_context(mock.patch.object(module, "end_superstep", end))
        yield


@pytest.mark.parametrize("way", WAYS)
def test_an_own_clock_would_be_seen(way: str) -> None:
    with own_clocks(), pytest.raises((Deadlock, RunError), match=SEEN):
        _ = [budgeted(number, way) for number in range(10)]


def test_clocks_differ() -> None:
    simulator = Simulator(seed())
    clocks = [simulator.clock() for _ in range(5)]
    for clock in clocks:
        clock.now = 10.0
    assert len({clock.read() for clock in clocks}) == 5
    assert len({clock.rate for clock in clocks}) == 5


def test_looks_at_a_clock_count_where_the_seed_decides_how_many_there_are() -> None:
    """Not in a store, which looks more often when others have it open, nor in a compiler."""
    clock = Clock(1e9, 1.0)
    clock.tick = 1.0

    def look(module: str) -> list[float]:
        names = {"__name__": module, "time": time}
        return [float(eval(f"time.{name}()", names)) for name in ("monotonic", "perf_counter")]

    real = look("numba.core.compiler")
    with Simulator(seed()).installed(), in_step_of(clock):
        for module in ("vertexsdk.backends._environment", "vertexsdk.state.store", "numba.core"):
            now = look(module)
            assert all(0 <= n - r < 60 for n, r in zip(now, real, strict=True))
        assert clock.now == 0.0
        assert look("vertexsdk.engine.iterations") == [1e9 + 1, 1e9 + 2]
        eval("time.sleep(7)", {"__name__": "vertexsdk.engine.iterations", "time": time})
        assert clock.now == 9.0


def test_the_clock_of_the_driver_begins_anew() -> None:
    driver = [Clock(0.0, 1.0) for _ in range(2)]
    looks = []
    for clock in driver:
        with simulated_time(clock):
            looks.append([time.perf_counter() for _ in range(3)])
    assert looks[0] == looks[1]
