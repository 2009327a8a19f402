"""What other processes do to a store while it is tested: race, write side by side, die.

Each function runs in a process of its own, started afresh, with picklable arguments.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from vertexsdk.state import Head, MissingError, SegmentKey, open_store

__all__ = ["STEPS", "commit_and_die", "commit_for_ever", "put_many", "race_heads", "read_segment"]
__all__ += ["commit_slowly", "run_together"]

STEPS = ("put_segment", "put_manifest", "swap_head")


def run_together(
    work: Callable[..., Any],
    arguments: list[tuple[Any, ...]],
    meanwhile: Callable[[], Any] | None = None,
) -> list[int | None]:
    """Run `work(*arguments[k])` in as many processes at once; their exit codes.

    Args:
        meanwhile: called here again and again until they have ended.
    """
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=some) for some in arguments]
    for process in processes:
        process.start()
    while meanwhile and any(process.is_alive() for process in processes):
        meanwhile()
    for process in processes:
        process.join(120)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
        process.join()
        process.close()
    return codes


def race_heads(location: str, loop: str, rounds: int) -> None:
    """Raise the head's epoch `rounds` times by compare-and-set, against whoever else does."""
    with open_store(location) as store:
        while rounds:
            head = store.backend.get_head(loop)
            assert head is not None
            if store.backend.swap_head(loop, head, Head("m", head.iteration + 1, head.epoch + 1)):
                rounds -= 1


def put_many(location: str, loop: str, partition: int, count: int) -> None:
    """Store `count` bases of 1000 rows in one partition."""
    with open_store(location) as store:
        for iteration in range(count):
            values = np.full(1000, float(partition * 1000 + iteration))
            columns = {"id": np.arange(1000), "value": values}
            store.put_segment(loop, partition, iteration, "base", columns)


def read_segment(location: str, key: SegmentKey, expected: bytes) -> None:
    """Fail unless the segment is there."""
    with open_store(location, create=False) as store:
        pieces = store.backend.get_segment(key)
        assert pieces is not None
        assert b"".join(piece.tobytes() for piece in pieces) == expected


def commit_and_die(location: str, loop: str, step: str, before: bool) -> None:
    """Commit iteration 1, and be killed before or after one step of it."""
    with open_store(location) as store:
        backend = store.backend
        act = getattr(backend, step)

        def die(*args: Any, **options: Any) -> Any:
            if not before:
                act(*args, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        def step_by_step(name: str, data: bytes, *args: Any, **options: Any) -> bool:
            backend.put_manifest(name, data, options["references"])
            return backend.swap_head(*args)

        newest = store.claim(loop)
        setattr(backend, step, die)
        backend.publish = step_by_step  # type: ignore[method-assign]
        columns = {"id": np.arange(10), "value": np.ones(10)}
        ref = store.put_segment(loop, 0, 1, "base", columns)
        store.commit(loop, iteration=1, segments=[ref], parent=newest)


def commit_for_ever(location: str, loop: str, acknowledged: Connection) -> None:
    """Commit deltas, telling each iteration when its commit returned, until killed."""
    with open_store(location) as store:
        newest = store.claim(loop)
        iteration = newest.iteration if newest else -1
        while True:
            iteration += 1
            kind = "delta" if newest and iteration % 7 else "base"
            columns = {"id": np.arange(500), "value": np.full(500, float(iteration))}
            ref = store.put_segment(loop, 0, iteration, kind, columns)  # type: ignore[arg-type]
            newest = store.commit(loop, iteration=iteration, segments=[ref], parent=newest)
            acknowledged.send(iteration)


def commit_slowly(location: str, loop: str, count: int, seconds: float) -> None:
    """Commit iterations 1 to `count`, each a while after its segment was written.

    A segment that was collected before its commit is written again, as `MissingError` asks for.
    """
    with open_store(location) as store:
        iteration = 1
        while iteration <= count:
            columns = {"id": np.arange(500), "value": np.full(500, float(iteration))}
            ref = store.put_segment(loop, 0, iteration, "base", columns)
            time.sleep(seconds)
            with suppress(MissingError):
                store.commit(loop, iteration=iteration, segments=[ref], parent=store.head(loop))
                iteration += 1
