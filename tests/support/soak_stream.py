"""`./dev soak stream`: kill a driver that takes in changes, again and again, on each backend.

After every kill another process goes on from the store. It must find each batch that was
acknowledged, and each once: the same counts, the same edges, the same answer as a dict of edges
that was never killed.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time

from tests.support.streaming_driver import LOOP, OPTIONS, batch, edges_after
from vertexsdk.algorithms import ShortestPaths
from vertexsdk.loops.main_loop import MainLoop
from vertexsdk.state import open_store
from vertexsdk.testing.oracles import disagreements, expected

__all__ = ["check", "killed", "soak_stream"]


def soak_stream(url: str, kills: int, chance: random.Random, *, spark: bool) -> str:
    """Kill `kills` times; what came of it, in words.

    Args:
        spark: the driver runs on Spark, else in its own process.

    Raises:
        AssertionError: a batch was lost, or taken in twice.
    """
    reached = -1
    for _ in range(kills):
        last = killed(url, chance.uniform(0, 3.0 if spark else 0.4), spark=spark)
        reached = check(url, last)
    return f"{kills} drivers killed over {reached + 1} batches, none lost, none doubled"


def killed(url: str, seconds: float, *, spark: bool = False) -> int:
    """Run a driver for so long after its first batch; return the last that it acknowledged."""
    command = [sys.executable, "-m", "tests.support.streaming_driver", url]
    with subprocess.Popen(
        [*command, *(["spark"] if spark else [])], stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        try:
            said = [driver.stdout.readline(), driver.stdout.readline()]
            time.sleep(seconds)
        finally:
            driver.kill()
        said += driver.stdout.read().split("\n")[:-1]
    assert said[0] == "ready\n", "the driver could not go on from what was in the store"
    return int(said[-1])


def check(url: str, last: int) -> int:
    """Compare the store with what must be there; return the last batch which is.

    Args:
        last: the last batch that was acknowledged.
    """
    with MainLoop.resume(None, ShortestPaths, backend=url, **OPTIONS) as main:
        reached = int(main.offsets["s"])
        assert last <= reached <= last + 1, "it may have been killed before it could say so"
        edges = edges_after(reached)
        assert main.changes == sum(len(batch(k)) for k in range(reached + 1))
        result = main.query()
        columns = result.columns()
        result.close()
        rows = [(a, b, x) for (a, b), x in edges.items()]
        wanted = expected("sssp", rows, [0], {"origin": 0})
        pairs = zip(columns["id"].tolist(), columns["length"].tolist(), strict=True)
        assert not disagreements(wanted, {v: {"length": x} for v, x in pairs})
    with open_store(url) as store:
        assert store.verify() == []
        assert len(store.versions(LOOP)) < 100
        for loop in store.loops():
            if loop != LOOP:
                store.delete(loop)
    return reached
