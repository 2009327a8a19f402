"""The rules of the protocol, checked from outside, after every step of a world.

What is true is known from what the components' methods are called for, and from the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.protocol import Acknowledge, Message, Prepare, Time
from tests.support.protocol_method import distances

if TYPE_CHECKING:
    from tests.support.protocol_world import World

__all__ = ["Truth", "Violation", "check_calls", "check_end", "check_sent", "check_termination"]


class Violation(AssertionError):
    """A rule of the protocol was broken."""


class Truth:
    """What is true of one vertex, from the calls of its method and from what it sends."""

    __slots__ = ("began", "committed", "gathered", "overtaken", "todo")

    def __init__(self) -> None:
        self.committed = -1
        self.gathered: dict[int, int] = {}  # by producer, the iteration of the latest update
        self.todo: int | None = None  # first iteration since which it has something to do
        self.began = 0  # the step in which that began
        self.overtaken: frozenset[Time] = frozenset()  # updates it let go before its own since then


def check_calls(world: World, v: int) -> None:
    """Check what a vertex has done in one step.

    Raises:
        Violation: it gathered an update late, twice or out of order; or committed outside
            [τ, τ+B-1], not after what it has gathered, more than B iterations after it had
            something to do, below a consumer, or without an update made before.
    """
    truth = world.truths[v]
    for kind, iteration, others in world.methods[v].calls:
        if kind == "commit":
            _check_commit(world, v, truth, iteration, others)
            continue
        if kind == "gather":
            if iteration < truth.committed:
                raise Violation(f"{v} gathers {iteration} after committing {truth.committed}")
            (source,) = others
            before = truth.gathered.get(source, -1)
            if iteration <= before:
                raise Violation(f"{v} gathers {iteration} of {source} after {before}")
            truth.gathered[source] = iteration
            iteration += 1
        if truth.todo is None:
            truth.todo = max(iteration, truth.committed + 1)
            truth.began = world.steps
    world.methods[v].calls.clear()


def _check_commit(world: World, v: int, truth: Truth, k: int, consumers: frozenset[int]) -> None:
    said = f"{v} commits in {k}"
    tau = world.frontier.tau
    if not tau <= k <= tau + world.bound - 1:
        raise Violation(f"{said}, while τ = {tau} and B = {world.bound}")
    if k <= max(truth.gathered.values(), default=-1):
        raise Violation(f"{said}, having gathered {truth.gathered}")
    if k <= truth.committed:
        raise Violation(f"{said} after {truth.committed}")
    if truth.todo is None or not truth.todo <= k < truth.todo + world.bound:
        raise Violation(f"{said}, with something to do since {truth.todo}")
    for consumer in consumers - {v}:
        if k < world.truths[consumer].committed:
            raise Violation(f"{said}, below its consumer {consumer}")
    missed = [u for u in world.under_way() if u.target == v and u.iteration < k]
    if missed:
        raise Violation(f"{said} without {missed[0]}")
    world.commits += 1
    world.patience = max(world.patience, world.steps - truth.began)
    truth.committed, truth.todo, truth.overtaken = k, None, frozenset()


def check_sent(world: World, v: int, message: Message) -> None:
    """Check a message that a vertex sends, after the step in which it does.

    Raises:
        Violation: it is a PREPARE, and B = 1; or the vertex, having something to do, has let a
            producer commit before it three times: twice may be, when it committed in this step.
    """
    if isinstance(message, Prepare) and world.bound == 1:
        raise Violation("PREPARE was sent with B = 1")
    truth = world.truths[v]
    if isinstance(message, Acknowledge) and truth.todo is not None:
        truth.overtaken |= {message.time}
        if sum(time.vertex == message.target for time in truth.overtaken) > 2:
            raise Violation(f"{v} is overtaken by {message.target} again and again")


def check_termination(world: World) -> None:
    """Check what the master says after a step.

    Raises:
        Violation: it reports that the loop or an iteration has terminated where that is not so, or
            does not report the loop's where it is so.
    """
    under_way = world.under_way()
    todo = [truth.todo for truth in world.truths if truth.todo is not None]
    lows = todo + [update.iteration + 1 for update in under_way]
    busy = bool(lows) or any(world.inboxes) or any(c.inputs for c in world.components)
    if world.frontier.quiet and busy:
        raise Violation("termination is reported, and there is something to do")
    if not busy and not any(world.reports) and not world.frontier.quiet:
        raise Violation("termination is not reported, and there is nothing to do")
    if lows and min(lows) < world.frontier.tau:
        raise Violation(f"τ = {world.frontier.tau}, and {min(lows)} has not terminated")


def check_end(world: World) -> None:
    """Check a world in which nothing is left to happen.

    Raises:
        Violation: a deadlock, or values other than the fixed point.
    """
    if not world.frontier.quiet:
        raise Violation("deadlock: nothing is under way, and the loop has not terminated")
    found = [method.value for method in world.methods]
    wanted = distances(world.graph, len(world.methods))
    if found != wanted:
        raise Violation(f"the result is {found}, not {wanted}")
