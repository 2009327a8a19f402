"""The asynchronous engine with one mistake in it, for tests to show that they find each.

A mistake is a change of one method, in this process, while the context lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from vertexsdk.engine import boundary
from vertexsdk.engine.boundary import Boundary
from vertexsdk.engine.pace import Coordinator
from vertexsdk.engine.sweeps import Sweeps

__all__ = ["MUTATIONS", "mutated"]

Old = Any  # the method as it is


def _ignore_holds(old: Old) -> Any:
    def take(b: Boundary, *given: Any) -> None:
        old(b, *given)
        b.holds[:] = 0

    return take


def _acknowledge_earlier(old: Old) -> Any:
    """Acknowledge although the consumer itself prepares with an earlier time."""

    def acknowledge(b: Boundary, *given: Any) -> Any:
        began = b.began
        b.began = np.zeros_like(began)
        try:
            return old(b, *given)
        finally:
            b.began = began

    return acknowledge


def _never_release(old: Old) -> Any:
    return lambda b, t, blocks: None


def _release_early(old: Old) -> Any:
    """Let consumers go at once, and still count on what they said."""

    def free(b: Boundary, *given: Any) -> None:
        covers = b.covers.copy()
        with mock.patch.object(boundary, "still_wanted"):
            old(b, *given)
        b.covers[:] = covers

    return free


def _hold_nothing(old: Old) -> Any:
    """Take in updates of the bound's last iteration at once."""

    def update(s: Sweeps, *given: Any) -> None:
        last, s.last = s.last, 2**31
        old(s, *given)
        s.last = last

    return update


def _any_iteration(old: Old) -> Any:
    """Commit in an iteration earlier than those that were acknowledged."""

    def ready(b: Boundary, *given: Any) -> Any:
        vertices, _ = old(b, *given)
        return vertices, 0

    return ready


def _bound_and_one(old: Old) -> Any:
    def begin(s: Sweeps, processor: Any, frontier: int, bound: int, *given: Any) -> None:
        old(s, processor, frontier, bound + 1, *given[:2])

    return begin


def _forget_what_comes(old: Old) -> Any:
    """Do not count updates that are on their way."""

    return lambda c, source, destination, iterations=(): old(c, source, destination)


def _take_at_once(old: Old) -> Any:
    """Take in reports although others are missing that were made before."""

    def covered(c: Coordinator, partition: int, report: Any) -> bool:
        posts = c._posts
        for source, count in enumerate(report.received):
            missing = count - c._received[partition][source] - len(posts[source, partition])
            posts[source, partition].extend([()] * missing)
        return True

    return covered


def _allow_the_bound(old: Old) -> Any:
    """Commit up to the bound from the frontier known here, though others know of an earlier one."""

    def begin(s: Sweeps, *given: Any) -> None:
        old(s, *given)
        s.allowed = s.last

    return begin


def _forget_who_waits(old: Old) -> Any:
    """Do not count vertices that prepare."""

    def low(s: Sweeps) -> Any:
        preparing, s.b.preparing = s.b.preparing, s.b.preparing[:0]
        try:
            return old(s)
        finally:
            s.b.preparing = preparing

    return low


def _never_finish(old: Old) -> Any:
    """Always say that there is something left."""
    return lambda s: old(s) or s.b.clock + 1


def _say_that_all_is_covered(old: Old) -> Any:
    """Take an acknowledgement to hold for whatever the producer does later."""

    def take(b: Boundary, t: Any, source: int, block: dict[str, Any], lamport: int) -> None:
        if "ack.covers" in block:
            block = block | {"ack.covers": np.full_like(block["ack.covers"], 2**62)}
        old(b, t, source, block, lamport)

    return take


def _drop_held(old: Old) -> Any:
    """Lose the updates that are held when the frontier moves."""

    def receive(s: Sweeps, blocks: Any) -> None:
        s.b.queue = [entry for entry in s.b.queue if entry[-1] >= s.last]
        old(s, blocks)

    return receive


MUTATIONS: dict[str, tuple[type, str, Callable[[Old], Any]]] = {
    "holds are ignored": (Boundary, "take", _ignore_holds),
    "acknowledged although preparing earlier": (Boundary, "_acknowledge", _acknowledge_earlier),
    "never released": (Boundary, "_free", _never_release),
    "released too early": (Boundary, "_free", _release_early),
    "nothing is held at the bound": (Sweeps, "_update", _hold_nothing),
    "acknowledged iterations are ignored": (Boundary, "ready", _any_iteration),
    "the bound is one more": (Sweeps, "__init__", _bound_and_one),
    "reports are taken in any order": (Coordinator, "_is_covered", _take_at_once),
    "the bound is allowed at once": (Sweeps, "__init__", _allow_the_bound),
    "updates on their way are not counted": (Coordinator, "posted", _forget_what_comes),
    "vertices that prepare are not counted": (Sweeps, "_low", _forget_who_waits),
    "quiet is never said": (Sweeps, "_low", _never_finish),
    "an acknowledgement covers all": (Boundary, "take", _say_that_all_is_covered),
    "held updates are lost": (Sweeps, "receive", _drop_held),
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Have the engine make the mistake."""
    cls, method, make = MUTATIONS[name]
    with mock.patch.object(cls, method, make(getattr(cls, method))):
        yield
