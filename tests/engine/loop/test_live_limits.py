"""Limits of a loop whose graph is changed in place are told by name."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

from vertexsdk import Graph, InputError, MainLoop, RunError
from vertexsdk.algorithms import ShortestPaths
from vertexsdk.engine.commands import Budget
from vertexsdk.engine.loop_engine import LoopEngine


@pytest.mark.parametrize("limit", [-1, 2.5, "5"])
def test_no_limit_of_iterations(limit: Any) -> None:
    with pytest.raises(InputError, match=r"a limit of .* iterations; make it an integer of 0"):
        Budget(limit)


@pytest.mark.parametrize("limit", [-1, float("nan"), "5"])
def test_no_time_limit(limit: Any) -> None:
    with pytest.raises(InputError, match=r"a time limit of .*; make it seconds, 0 or more"):
        Budget(None, limit)


def test_limits_and_cancelling(spark: SparkSession) -> None:
    cycle = Graph.from_arrays([1, 2, 3], [2, 3, 2], [1.0, 1.0, -2.0], spark=spark, partitions=1)
    with MainLoop(ShortestPaths, cycle, params={"origin": 1}, backend="memory://limits") as main:
        assert isinstance(main._history.engine, LoopEngine)
        with pytest.raises(RunError, match=r"met its limit of iterations.* 5 iterations"):
            main.query(max_iterations=5)
        with pytest.raises(RunError, match=r"met its time limit after \d"):
            main.query(timeout=0.2)
        with main.fork() as branch:
            branch.start()
            while branch.progress()["iterations"] < 3:
                time.sleep(0.01)
            branch.cancel()
            with pytest.raises(RunError, match="was cancelled"):
                branch.result(60)
        main.ingest([("-", 3, 2)])
        assert main.query().lookup([2, 3]) == {2: {"length": 1.0}, 3: {"length": 2.0}}
