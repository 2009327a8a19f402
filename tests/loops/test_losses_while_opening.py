"""Processors that are lost while a loop is opened, resumed, or forked at an earlier version."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from tests.support.simulated_histories import Heard
from tests.support.simulated_network import Faults
from tests.support.simulator import Simulator
from vertexsdk import Graph, MainLoop, Vertex
from vertexsdk.algorithms import ConnectedComponents, Coreness
from vertexsdk.errors import LostError

ONCE = Faults(lost=1.0, calm=1000)  # in the first command, or soon after it
ALWAYS = Faults(lost=1.0, calm=0)
WANTED = {1: 1, 2: 1, 3: 1, 4: 4, 5: 4}
EDGES = [1, 2, 4], [2, 3, 5], [1.0, 1.0, 1.0]


def graph() -> Graph:
    return Graph.from_arrays(*EDGES, undirected=True, partitions=3)


def answer(loop: Any) -> dict[Any, Any]:
    with closing(loop.query()) as result:
        return dict(result.to_dict())


@pytest.mark.parametrize("program", [ConnectedComponents, Coreness, Heard])
@pytest.mark.sample(1)
def test_a_loop_is_opened_and_resumed(program: type[Vertex]) -> None:
    losses = 0
    trusted = program is Heard
    for number in range(6):
        options: Any = {"backend": f"memory://opened-{program.__name__}-{number}", "loop": "m",
                        "compiled": False, "trusted": trusted}  # fmt: skip
        with Simulator(number, ONCE).installed() as simulator:
            with MainLoop(program, graph(), **options) as main:
                first = answer(main)
            losses += simulator.losses
        with Simulator(number, ONCE).installed() as simulator:
            with MainLoop.resume(None, program, **options) as main:
                assert answer(main) == first
            losses += simulator.losses
        assert program is not ConnectedComponents or first == WANTED
    assert losses > 4


def test_a_fork_of_an_earlier_version_is_made() -> None:
    losses = 0
    for number in range(6):
        options: Any = {"backend": f"memory://earlier-{number}", "compiled": False}
        simulator = Simulator(number, Faults())
        with simulator.installed():
            with MainLoop(ConnectedComponents, graph(), **options) as main:
                at = main.iteration
                main.ingest([("+", 3, 4)])
                simulator.faults = ONCE
                with main.fork("earlier", at=at) as branch, closing(branch.result()) as result:
                    assert result.to_dict() == WANTED
                assert answer(main)[5] == 1
            losses += simulator.losses
    assert losses > 2


def test_one_loss_after_the_other_is_an_error() -> None:
    with Simulator(1, ALWAYS).installed(), pytest.raises(LostError, match="does not answer"):
        _ = [MainLoop(ConnectedComponents, graph(), backend="memory://again") for _ in range(5)]
