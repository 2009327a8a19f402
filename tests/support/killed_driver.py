"""A driver of a main loop that takes in a stream of changes until it is killed; see `soak_kills`.

It appends to a log what it does, with the time: which batch was acknowledged, which answer was
written. A batch that failed is sent again, as a source does that is not sure. Whoever kills the
driver knows what every batch is, and so what must be in the store.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vertexsdk.errors import VertexError
from vertexsdk.graph.graph import Graph
from vertexsdk.loops.main_loop import MainLoop
from vertexsdk.state import StateError
from vertexsdk.transport import resident
from vertexsdk.transport.session import session

__all__ = [
    "OPTIONS",
    "PROGRAMS",
    "SOURCE",
    "DriverLog",
    "Edges",
    "apply_batch",
    "batch",
    "process_ids",
    "started",
]

Edges = dict[tuple[int, int], float]
PROGRAMS: dict[str, Mapping[str, Any]] = {"sssp": {"origin": 0}, "wcc": {}, "pagerank": {}}
OPTIONS: dict[str, Any] = {"snapshot_every": "1s", "retain": 4, "keep_answers": 3}
SOURCE = "stream"
_VERTICES = 60
_QUERY_EVERY = 3  # batches
_BRANCH_EVERY = 20  # batches
_RETRY_SECONDS = 0.05


def batch(number: int) -> list[tuple[Any, ...]]:
    """The changes of a batch: of any kind, of edges that are there and that are not."""
    rng = random.Random(number)
    rows = []
    for _ in range(rng.randint(1, 40)):
        a, b, x = rng.randrange(_VERTICES), rng.randrange(_VERTICES), float(rng.randint(1, 9))
        sign = rng.choice("++-~")
        rows.append((sign, a, b) if sign == "-" else (sign, a, b, x))
    return rows


def apply_batch(edges: Edges, number: int) -> None:
    """Change `edges` as a batch does."""
    for sign, a, b, *value in batch(number):
        if sign == "-":
            edges.pop((a, b), None)
        elif sign == "+" or (a, b) in edges:
            edges[a, b] = value[0]


class DriverLog:
    """Lines `KIND SECONDS WORD...`, each written whole."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def say(self, kind: str, *words: object) -> None:
        """Append a line; the seconds are those of the clock that all processes share."""
        line = " ".join([kind, f"{time.monotonic():.3f}", *map(str, words)])
        os.write(self._file, f"{line}\n".encode())


def started(master: str, log: str) -> tuple[DriverLog, Any]:
    """Return the log, and the session of a driver on Spark; with the master "none" it has none."""
    resident.SLOT_SECONDS = 60.0  # the machine may be busy
    return DriverLog(log), None if master == "none" else session(master, app="driver")


def main(url: str, program: str, master: str, log: str, answers: str) -> None:
    """Go on from what is in the store, or begin."""
    said, spark = started(master, log)
    options = {**OPTIONS, "loop": program, "backend": url}
    try:
        loop = MainLoop.resume(spark, program, **options)
    except StateError:  # there is none yet
        graph = Graph.from_arrays([0], [1], [1.0], spark=spark, partitions=2)
        loop = MainLoop(program, graph, params=PROGRAMS[program], **options)
    number = int(loop.offsets.get(SOURCE, -1))
    said.say("resumed", number, loop.changes)
    asks, processors = True, -1
    while True:
        try:
            if processors != loop.progress()["restarts"]:
                processors = loop.progress()["restarts"]
                said.say("processors", *process_ids(loop._history.engine.graph.workers))
            if asks:
                _answer(loop, said, number, Path(answers))
                asks = False
            if number % _BRANCH_EVERY == 0:
                _merge_a_branch(loop)
            if number >= 0:  # a source that is not sure sends a batch again
                loop.ingest(batch(number), source=SOURCE, offset=number)
            sent = time.monotonic()
            loop.ingest(batch(number + 1), source=SOURCE, offset=number + 1)
        except VertexError as error:
            said.say("failed", type(error).__name__, " ".join(str(error).split()))
            time.sleep(_RETRY_SECONDS)
            continue
        number += 1
        said.say("acknowledged", f"{sent:.3f}", number)
        asks = number % _QUERY_EVERY == 0


def _merge_a_branch(loop: MainLoop) -> None:
    branch = loop.fork()
    try:
        branch.result().close()
        branch.merge()
    finally:
        branch.close(forget=True)


def process_ids(workers: Any) -> list[int]:
    """The process ids of a loop's processors; none if they are in this process."""
    return workers.run(lambda _: os.getpid()) if getattr(workers, "resident", False) else []


def _answer(loop: MainLoop, said: DriverLog, number: int, answers: Path) -> None:
    """Write an exact answer, with what the loop has taken in until then."""
    asked = time.monotonic()
    with contextlib.closing(loop.query()) as result:
        file = answers / f"{number}.npz"
        np.savez(file, **result.columns())
    said.say("answered", f"{asked:.3f}", number, loop.changes, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
