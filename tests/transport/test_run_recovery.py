"""Runs on Spark whose workers are killed: they go on from their newest snapshot."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.clusters import Driver
from vertexsdk import Graph, Sum, Vertex, param, run, state
from vertexsdk.errors import RunError

pytestmark = pytest.mark.cluster
LAST = 14  # iteration


class Fragile(Vertex):
    """Counts walks; one vertex kills its process, or fails, once."""

    mark: str = param()
    at: int = param()
    kills: bool = param(True)
    count: int = state(1)
    messages = Sum(int)
    always = True
    max_iterations = LAST

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        if self.id == 0:
            time.sleep(0.02)  # so that snapshots are stored meanwhile
            if iteration == self.at and not os.path.exists(self.mark):
                Path(self.mark).touch()
                if self.kills:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("no more")
        self.count = (self.count * 31 + delta.value * iteration) % 1_000_003

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.count)


def recovered(
    spark: SparkSession | None, folder: str, at: int, shuffle: bool
) -> tuple[dict[int, int], dict[str, Any]]:
    """The answer of a run that is interrupted in an iteration, and its statistics."""
    ring = [*range(40)], [*range(1, 40), 0]
    graph = Graph.from_arrays(*ring, spark=spark, partitions=2)
    options: dict[str, Any] = {
        "params": {"mark": f"{folder}/mark", "at": at, "kills": not shuffle}, "compiled": False,
        "exchange": "shuffle" if shuffle else "auto", "backend": f"lmdb://{folder}/state",
        "snapshot_every": 3,
    }  # fmt: skip
    try:
        if shuffle:  # where Spark runs a task that fails again, with what its host has
            with contextlib.suppress(RunError):
                run(Fragile, graph, **options)
            options["resume"] = True
        with contextlib.closing(run(Fragile, graph, **options)) as result:
            return dict(result.to_dict()), result.statistics
    finally:
        graph.unpersist()


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_run_that_was_interrupted_goes_on(driver: Driver, shuffle: bool, tmp_path: Path) -> None:
    wanted, _ = recovered(None, str(tmp_path), LAST + 1, False)
    got, statistics = driver.run(recovered, str(tmp_path), 9, shuffle)
    assert got == wanted
    assert statistics["iterations"] == LAST
    assert 3 <= statistics["resumed_at"] < 9
    assert (tmp_path / "mark").exists()
