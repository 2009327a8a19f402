"""Other processes that use a store while it is tested: they race, write side by side, and die.

Each function but `run_together` and `put` runs in a new process, with picklable arguments.
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

from vertexsdk.state import Head, MissingError, SegmentKey, SegmentRef, Store, open_store
from vertexsdk.state.contract import NewManifest
from vertexsdk.state.manifests import Kind

STEPS = ("put_segment", "put_manifest", "swap_head")


def put(
    store: Store, loop: str, iteration: int, value: float, rows: int = 10, kind: Kind = "base"
) -> SegmentRef:
    """Store a segment of partition 0 in which all of `rows` vertices have one value."""
    columns = {"id": np.arange(rows), "value": np.full(rows, value)}
    return store.put_segment(loop, 0, iteration, kind, columns)


def run_together(
    work: Callable[..., Any],
    arguments: list[tuple[Any, ...]],
    meanwhile: Callable[[], Any] | None = None,
) -> list[int | None]:
    """Run `work(*arguments[k])` for each k, all in processes of their own at once.

    Args:
        work: a function of a module.
        arguments: the arguments of each process.
        meanwhile: called in this process repeatedly until they have ended.

    Returns:
        The exit codes of the processes.
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
    """Raise the head's epoch `rounds` times by compare-and-set, while other processes do too."""
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


def commit_and_die(location: str, loop: str, step: str, dies_before_step: bool) -> None:
    """Commit iteration 1, and be killed before or after one step of it.

    Args:
        dies_before_step: be killed before the step, not after it.
    """
    with open_store(location) as store:
        backend = store.backend
        swap = backend.swap_head

        def step_by_step(
            loop: str, expected: Head | None, head: Head, new: NewManifest | None = None
        ) -> bool:
            if new is not None:
                backend.put_manifest(new.name, new.data, new.references)
            return swap(loop, expected, head)

        backend.swap_head = step_by_step  # type: ignore[method-assign]
        newest = store.claim(loop)
        act = getattr(backend, step)

        def die(*args: Any, **options: Any) -> Any:
            if not dies_before_step:
                act(*args, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(backend, step, die)
        store.commit(loop, iteration=1, segments=[put(store, loop, 1, 1.0)], parent=newest)


def commit_for_ever(location: str, loop: str, acknowledged: Connection) -> None:
    """Commit deltas until killed, and send each iteration once its commit has returned."""
    with open_store(location) as store:
        newest = store.claim(loop)
        iteration = newest.iteration if newest else -1
        while True:
            iteration += 1
            kind: Kind = "delta" if newest and iteration % 7 else "base"
            ref = put(store, loop, iteration, iteration, 500, kind)
            newest = store.commit(loop, iteration=iteration, segments=[ref], parent=newest)
            acknowledged.send(iteration)


def commit_slowly(location: str, loop: str, count: int, seconds: float) -> None:
    """Commit iterations 1 to `count`, each some seconds after its segment was written.

    A segment that was collected before its commit is written again, as `MissingError` advises.
    """
    with open_store(location) as store:
        iteration = 1
        while iteration <= count:
            ref = put(store, loop, iteration, iteration, 500)
            time.sleep(seconds)
            with suppress(MissingError):
                store.commit(loop, iteration=iteration, segments=[ref], parent=store.head(loop))
                iteration += 1
