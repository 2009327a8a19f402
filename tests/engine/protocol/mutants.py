"""The protocol with one thing wrong in it, each of which the tests must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.protocol import Acknowledge, Component, Event, Frontier, Message, Time, Update

__all__ = ["COMPONENTS", "FRONTIERS"]


class NoLamportTest(Component):
    """Acknowledges updates that happen after its own."""

    __slots__ = ()

    def _acknowledges(self, source: int, time: Time) -> bool:
        return source not in self.prepares


class NoPendingList(Component):
    """Forgets the PREPAREs that it does not answer at once."""

    __slots__ = ()

    def _answer(self, out: list[Message]) -> None:
        super()._answer(out)
        self.pending.clear()


class NoPrepareList(Component):
    """Commits without regard to the producers that it has acknowledged."""

    __slots__ = ()

    def _blocked(self) -> bool:
        return False


class PreparesTooFar(Component):
    """Takes the iteration after τ+B-1 for the one without PREPARE."""

    __slots__ = ()

    def _farthest(self) -> bool:
        return self.iteration >= self.tau + self.bound


class PreparesTooLittle(Component):
    """Takes the iteration before τ+B-1 for one without PREPARE."""

    __slots__ = ()

    def _farthest(self) -> bool:
        return self.iteration >= self.tau + self.bound - 2


class NoHolding(Component):
    """Gathers updates of iteration τ+B-1 before τ has terminated."""

    __slots__ = ()

    def _holds(self, update: Update) -> bool:
        return super()._holds(update) and update.iteration < self.last


class HoldsTooMuch(Component):
    """Holds updates of iteration τ+B-2 too."""

    __slots__ = ()

    def _holds(self, update: Update) -> bool:
        return super()._holds(update) or update.iteration >= self.last - 1


class NoDiscarding(Component):
    """Gathers updates that come twice."""

    __slots__ = ()

    def _duplicate(self, update: Update) -> bool:
        return False


class NoOrder(Component):
    """Gathers updates that have overtaken one that was prepared."""

    __slots__ = ()

    def _holds(self, update: Update) -> bool:
        return update.iteration >= self.last


class NewestOnly(Component):
    """Discards an update that was overtaken, though it is awaited."""

    __slots__ = ()

    def _duplicate(self, update: Update) -> bool:
        return update.time <= self.finished.get(update.source, Time(-1, -1))


class TakesInputsAlways(Component):
    """Gathers inputs, which change the dependency graph, while preparing."""

    __slots__ = ()

    def _takes_inputs(self) -> bool:
        return self._earliest(self.inputs[0]) <= self.last


class TakesInputsTooFar(Component):
    """Gathers inputs after a commit in τ+B-1, and lets producers wait for it."""

    __slots__ = ()

    def _takes_inputs(self) -> bool:
        return not self.preparing


class NoRelease(Component):
    """Sends nothing to those that were asked when its value has not changed."""

    __slots__ = ()

    def handle(self, event: Event) -> list[Message]:
        sent = super().handle(event)
        return [m for m in sent if not (isinstance(m, Update) and m.value is None)]


class TakesLateAcknowledges(Component):
    """Takes an ACKNOWLEDGE of an update before for one of the update under way."""

    __slots__ = ()

    def _on_acknowledge(self, acknowledge: Acknowledge) -> None:
        time = self.time or acknowledge.time
        super()._on_acknowledge(replace(acknowledge, time=time))


class IgnoresAcknowledgedIterations(Component):
    """Commits without regard to the iterations of its consumers."""

    __slots__ = ()

    def _on_acknowledge(self, acknowledge: Acknowledge) -> None:
        self.waiting.discard(acknowledge.source)


class Restless(Component):
    """Prepares again at every ACKNOWLEDGE, for ever: no deadlock, and no progress."""

    __slots__ = ()

    def _on_acknowledge(self, acknowledge: Acknowledge) -> None:
        if acknowledge.time == self.time and not self._farthest():
            self.asked.clear()


class NoCommonClock(Component):
    """Takes its times from a clock of its own, before those of what it has acknowledged."""

    __slots__ = ("ticks",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.ticks = 0

    def _begin(self, iteration: int) -> None:
        if self.since is None:
            self.clock, self.ticks = self.ticks, self.ticks + 1
        super()._begin(iteration)


class DeafToClocks(Component):
    """Does not take the clock of ACKNOWLEDGEs, and so is before its consumers again and again."""

    __slots__ = ()

    def _on_acknowledge(self, acknowledge: Acknowledge) -> None:
        super()._on_acknowledge(replace(acknowledge, clock=0))


class LowIsRaised(Component):
    """Reports the iteration that it was raised to, not that since which it has something to do."""

    __slots__ = ()

    def _begin(self, iteration: int) -> None:
        super()._begin(iteration)
        self.since = self.iteration


class NoLow(Component):
    """Does not report held updates."""

    __slots__ = ()

    @property
    def low(self) -> int | None:
        """That of what it has gathered only."""
        return self.since


class BoundTooLarge(Frontier):
    """Lets vertices commit in τ+B."""

    __slots__ = ()

    def __init__(self, partitions: int, bound: int) -> None:
        super().__init__(partitions, bound + 1)


class BoundTooSmall(Frontier):
    """Lets vertices commit up to τ+B-2."""

    __slots__ = ()

    def __init__(self, partitions: int, bound: int) -> None:
        super().__init__(partitions, bound)
        self.bound -= 1
        self.last -= 1


class QuietTooSoon(Frontier):
    """Reports termination while updates are in transit."""

    __slots__ = ()

    @property
    def quiet(self) -> bool:
        """Whether partitions have nothing to do."""
        return all(low is None for low in self.lows)


class NeverQuiet(Frontier):
    """Does not report termination."""

    __slots__ = ()

    @property
    def quiet(self) -> bool:
        """False."""
        return False


class TerminatesTooSoon(Frontier):
    """Terminates an iteration while its updates are in transit."""

    __slots__ = ()

    def sent(self, destination: int, iteration: int, count: int = 1) -> None:
        """As if they were of the next iteration."""
        super().sent(destination, iteration + 1, count)

    def received(self, destination: int, iteration: int, count: int = 1) -> None:
        """As if they were of the next iteration."""
        super().received(destination, iteration + 1, count)

    def _asked_nobody(self) -> bool:
        return False


class MovesOnUnasked(Frontier):
    """Raises `last` while an update that needed no PREPARE is in transit."""

    __slots__ = ()

    def _asked_nobody(self) -> bool:
        return False


class HeardAtOnce(Frontier):
    """Takes it that all partitions know the newest τ."""

    __slots__ = ()

    def report(self, partition: int, low: int | None, heard: int | None = None) -> None:
        """As if the partition knew."""
        super().report(partition, low)


COMPONENTS = [c for c in globals().values() if isinstance(c, type) and c.__base__ is Component]
FRONTIERS = [c for c in globals().values() if isinstance(c, type) and c.__base__ is Frontier]
