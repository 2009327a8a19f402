"""Loops with each kind of snapshot, in turns in one process, so that other load meets them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.case_process import CaseProcess
from benchmarks.keyed.sizes import Sizes
from benchmarks.snapshots.intervals import NEVER
from vertexsdk import StatefulLoop


def options(kind: str, every: float) -> dict[str, Any]:
    """Arguments of a loop with this kind of snapshot."""
    if kind == "none":
        return {"snapshot_every": NEVER}
    return {"snapshot_every": f"{every:g}s", "snapshots": kind}


def in_turns(
    process: CaseProcess,
    sizes: Sizes,
    name: str,
    every: float,
    rounds: int,
    make: Callable[[str], tuple[StatefulLoop, Callable[[], int], Callable[[], None]]],
) -> None:
    """Note calls per second with each kind of snapshot, and the longest time of one `map`.

    A snapshot is due when a turn begins, for it is that long since the one before, and the turn
    lasts until the next one is.

    Args:
        name: of the figures.
        every: seconds between snapshots.
        rounds: turns of each kind.
        make: for a kind, its loop, what makes some calls and returns how many, and the check of
            all that they did.
    """
    made = {kind: make(kind) for kind in sizes.kinds}
    for flow, step, _ in made.values():
        step()
        flow.snapshot()  # of all rows; those that follow have the rows that changed
    for number in range(rounds):
        for kind in _there_and_back(sizes.kinds, number):
            flow, step, _ = made[kind]
            rate, longest, calls = _turn(step, max(sizes.turn, every))
            process.note(f"{name} {kind} {every:g}", rate)
            process.note(f"{name} {kind} {every:g} longest", longest)
            if kind != "none" and flow.progress()["calls_since_snapshot"] >= calls:
                raise RuntimeError(f"{name} {kind} {every:g}: there was no snapshot in a turn")
    for flow, _, check in made.values():
        check()
        flow.close()


def _there_and_back(kinds: tuple[str, ...], number: int) -> Iterable[str]:
    return kinds if number % 2 == 0 else kinds[::-1]


def _turn(step: Callable[[], int], seconds: float) -> tuple[float, float, int]:
    """Calls per second, the longest time of a step, and the number of calls."""
    calls, longest = 0, 0.0
    began = last = time.perf_counter()
    while last - began < seconds:
        calls += step()
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return calls / (last - began), longest, calls
