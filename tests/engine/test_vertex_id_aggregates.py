"""Aggregates of vertex ids: the least and the greatest, of integers and of strings."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from contextlib import closing
from typing import Any

import pytest

from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop, Max, Min, Sum, Vertex, VertexId, aggregate, run, state
from vertexsdk.graph.topology.id_codec import BOTTOM, TOP, VertexName


class Ends(Vertex):
    """The least and the greatest id of all, and whether any is less or greater than none."""

    first: VertexId = state()
    last: VertexId = state()
    none: bool = state(True)

    messages = Sum(int)
    always = True
    max_iterations = 2
    least = aggregate(Min(VertexId))
    most = aggregate(Max(VertexId))

    def init(self):
        self.first = self.id
        self.last = self.id

    def gather(self, iteration, source, delta):
        if iteration == 1:
            self.none = self.id < self.least.value and self.id > self.most.value
            self.least.contribute(self.id)
            self.most.contribute(self.id)
        else:
            self.first = self.least.value
            self.last = self.most.value

    def scatter(self, iteration):
        self.emitAll(iteration)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it is interpreted

    class EndsOfEvents(Vertex):
        """The same at the events level."""

        first: VertexId = state()
        last: VertexId = state()
        none: bool = state(True)

        max_iterations = 3
        least = aggregate(Min(VertexId))
        most = aggregate(Max(VertexId))

        def init(self):
            self.least.contribute(self.id)
            self.most.contribute(self.id)

        def gather(self, iteration, source, delta):
            super().gather(iteration, source, delta)
            if self.least.value <= self.id <= self.most.value:
                self.first = self.least.value
                self.last = self.most.value
            self.none = self.none and self.id >= self.first

        def scatter(self, iteration):
            if iteration <= 1:
                self.emitAll(1)


@pytest.mark.sample(6)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("ids", [int, str])
@pytest.mark.parametrize("what", ["compiled", "interpreted", "events"])
@pytest.mark.parametrize("how", ["run", "loop"])
def test_the_least_and_the_greatest(how: str, what: str, ids: Any, partitions: int) -> None:
    drawn = random.Random(seed()).sample(range(-50, 50), 6)
    names = [ids(number) for number in drawn]
    source, target = names[:5], names[1:]
    graph = Graph.from_arrays([*source, names[5]], [*target, names[0]], partitions=partitions)
    program: Any = EndsOfEvents if what == "events" else Ends
    options: dict[str, Any] = {"backend": "memory://ends", "compiled": what == "compiled"}
    if how == "run":
        answer = run(program, graph, **options)
    else:
        with MainLoop(program, graph, replace=True, **options) as main:
            answer = main.query()
    with closing(answer):
        wanted = {"first": min(names), "last": max(names), "none": True}
        assert dict(answer.rows()) == dict.fromkeys(names, wanted)


def test_no_id_stays_what_it_is() -> None:
    for none in (TOP, BOTTOM):
        assert pickle.loads(pickle.dumps(none)) is none
        assert copy.deepcopy(none) is none
    assert ~TOP is BOTTOM
    assert ~BOTTOM is TOP
    for name in ("z", VertexName("z"), "", VertexName("")):
        assert BOTTOM < name < TOP
        assert TOP > name > BOTTOM
        assert min(name, TOP) is name is max(name, BOTTOM)
