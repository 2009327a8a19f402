"""Simulated connections: messages come in the order in which they were sent, late or repeated.

That is the contract of the real transport: reliable, ordered for each pair of processes, unordered
between pairs. When a connection is lost, what is on its way is lost with it. It is established
again, and the sender sends again, in order, what it does not know to have come: so the receiver may
get a message twice, and tells by its number.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

__all__ = ["Connection", "Events", "Faults"]

_UNCONFIRMED = 4  # messages that came, of which the sender may not know that they did


@dataclass(frozen=True)
class Faults:
    """How often things go wrong, as probabilities.

    Attributes:
        late: a message takes much longer than others, and holds back those after it.
        repeated: a message comes once more, some time later.
        disconnected: a connection is lost when a message is sent on it.
        lost: a processor is lost, at a random point of a command.
        slow: a processor pauses for a long time after a step.
        calm: commands after the loss of a processor in which none is lost.
    """

    late: float = 0.0
    repeated: float = 0.0
    disconnected: float = 0.0
    lost: float = 0.0
    slow: float = 0.0
    calm: int = 20


class Events:
    """What is to happen, in the order of simulated time.

    Attributes:
        now: the time of what happens.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = itertools.count()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Have something happen at a time; not before now."""
        heapq.heappush(self._heap, (max(when, self.now), next(self._numbers), action))

    def step(self) -> bool:
        """Have the next thing happen; False if there is none."""
        if not self._heap:
            return False
        self.now, _, action = heapq.heappop(self._heap)
        action()
        return True


@dataclass
class _Message:
    content: Any
    came: bool = False


@dataclass
class Connection:
    """From one process to one other.

    Args:
        events: takes the arrivals.
        chance: what decides.
        faults: how often things go wrong.
        receive: what the receiver does with a message.
        note: is told of faults.
    """

    events: Events
    chance: Random
    faults: Faults
    receive: Callable[[Any], None]
    note: Callable[[str], None]
    _last: float = 0.0  # when the newest message comes
    _life: int = 0  # how often the connection was lost
    _sent: deque[_Message] = field(default_factory=deque)  # newest ones, in order

    def send(self, content: Any, when: float) -> None:
        """Send a message at a time."""
        chance, faults = self.chance, self.faults
        while len(self._sent) > _UNCONFIRMED and self._sent[0].came:
            self._sent.popleft()
        self._sent.append(_Message(content))
        if chance.random() < faults.disconnected:
            self._disconnect(when)
            return
        self._transfer(self._sent[-1], when)
        if chance.random() < faults.repeated:
            again = self._sent[-1]
            self.note("repeated")
            self.events.at(
                self._last + chance.expovariate(2.0), lambda: self.receive(again.content)
            )

    def _transfer(self, message: _Message, when: float) -> None:
        seconds = self.chance.expovariate(1000.0)
        if self.chance.random() < self.faults.late:
            self.note("late")
            seconds += self.chance.expovariate(1.0)
        self._last = max(self._last, when + seconds)
        life = self._life

        def arrive() -> None:
            if life == self._life:
                message.came = True
                self.receive(message.content)

        self.events.at(self._last, arrive)

    def _disconnect(self, when: float) -> None:
        self.note("disconnected")
        self._life += 1
        self._last = 0.0
        came = sum(message.came for message in self._sent)
        again = list(self._sent)[self.chance.randint(0, came) :]
        back = max(when, self.events.now) + self.chance.expovariate(5.0)
        for message in again:
            self._transfer(message, back)
