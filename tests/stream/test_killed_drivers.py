"""A driver killed at any instant: what it acknowledged is there, once, and another goes on."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from vertexsdk import MainLoop
from vertexsdk.algorithms import ShortestPaths
from vertexsdk.state import open_store
from vertexsdk.testing.loop_engine import without_spark
from vertexsdk.testing.oracles import disagreements, expected
from vertexsdk.testing.streaming_driver import LOOP, OPTIONS, batch, edges_after

KILLS = 5


def killed(url: str, seconds: float) -> int:
    """Run a driver for so long after its first batch; return the last that it acknowledged."""
    command = [sys.executable, "-m", "vertexsdk.testing.streaming_driver", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
        first = driver.stdout.readline()
        time.sleep(seconds)
        driver.kill()
        said = [first, *driver.stdout.read().split("\n")[:-1]]
    return int(said[-1])


def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    rng = random.Random()
    for _ in range(KILLS):
        last = killed(url, rng.uniform(0, 0.4))
        with without_spark():
            main = MainLoop.resume(None, ShortestPaths, backend=url, **OPTIONS)  # type: ignore[arg-type]
            reached = main.offsets["s"]
            assert last <= reached <= last + 1  # it may have been killed before it could say so
            edges = edges_after(reached)
            engine: Any = main._versions.engine
            assert engine.edges == edges
            assert main.changes == sum(len(batch(k)) for k in range(reached + 1))
            columns = main.query().columns()
            rows = [(a, b, x) for (a, b), x in edges.items()]
            wanted = expected("sssp", rows, [0], {"origin": 0})
            pairs = zip(columns["id"].tolist(), columns["length"].tolist(), strict=True)
            assert not disagreements(wanted, {v: {"length": x} for v, x in pairs})
            main.close()
        with open_store(url) as store:
            assert store.verify() == []
            assert len(store.versions(LOOP)) < 100
