"""A task which finds itself in another process begins with `init`, and counts as if it had not."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from vertexsdk import Graph, Latest, MainLoop, Vertex, state
from vertexsdk.engine.loop import _loop_engine as engine
from vertexsdk.engine.loop import _loop_task as loop_task


class Slow(Vertex):
    """At its fixed point after 13 iterations, in three slices of time or more."""

    count: int = state(0)
    messages = Latest(int)

    def gather(self, iteration, source, delta):
        if self.id == 0:
            time.sleep(0.02)
        self.count = min(iteration, 12)

    def scatter(self, iteration):
        self.emitAll(self.count)


def test_iterations_made_again_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    init, job = engine.LoopEngine.__init__, engine.LoopEngine._job

    def moving(self: Any, graph: Any, plan: Any, *args: Any, **options: Any) -> None:
        init(self, graph, replace(plan, resident=False), *args, **options)

    def elsewhere(self: Any, command: Any) -> Any:
        monkeypatch.setattr(loop_task, "_held", {})
        return job(self, command)

    monkeypatch.setattr(engine.LoopEngine, "__init__", moving)
    monkeypatch.setattr(engine.LoopEngine, "_job", elsewhere)
    monkeypatch.setattr(engine, "SLICE", 0.05)
    graph = Graph.from_arrays([0, 1], [1, 0], partitions=1)
    with (
        MainLoop(Slow, graph, backend="memory://moved", compiled=False) as main,
        main.fork() as branch,
    ):
        result = branch.start(max_iterations=20).result()
        assert result.to_dict() == {0: 12, 1: 12}
        assert result.statistics["iterations"] == 13
        assert result.statistics["hops"] > 2
        result.close()
