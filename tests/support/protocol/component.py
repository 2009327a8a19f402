"""One vertex in the three-phase update protocol. Tornado, section 4.2 (Figure 3) and 4.4.

What the paper leaves open, and how it is decided, is in the package's docstring.
"""

from __future__ import annotations

from tests.support.protocol.events import (
    Acknowledge,
    Announcement,
    Event,
    Input,
    Message,
    Prepare,
    Time,
    Update,
)
from tests.support.protocol.gathering import NEVER, Gathering
from vertexsdk.errors import ProgramError

__all__ = ["Component"]


class Component(Gathering):
    """One vertex: `handle` takes an event and returns the messages it sends."""

    __slots__ = ()

    def handle(self, event: Event) -> list[Message]:
        """Take in an event; return the messages to send.

        Raises:
            ProgramError: the method's `scatter` returned a value for what is not a consumer.
        """
        out: list[Message] = []
        match event:
            case Update():
                self._on_update(event)
            case Prepare():
                self._on_prepare(event, out)
            case Acknowledge():
                self._on_acknowledge(event)
            case Input():
                self.inputs.append(event)
            case Announcement():
                self.tau = max(self.tau, event.tau)
                self.last = max(self.last, event.last)
        while True:
            self._gather_held()
            self._gather_inputs()
            self._answer(out)
            if not self._may_commit(out):
                return out
            self._commit(out)

    # Phase 2 -------------------------------------------------------------------------------------

    def _on_prepare(self, prepare: Prepare, out: list[Message]) -> None:
        """OnReceivePrepare: if not finished, it is pended, and answered in this step if due."""
        self.clock = max(self.clock, prepare.time.clock)
        source, time = prepare.source, prepare.time
        listed = self.prepares.get(source)
        if listed == time:
            out.append(self._acknowledgement(source, time))  # it was sent again
        elif time > max(listed or NEVER, self.finished.get(source, NEVER)):
            self.pending[source] = max(time, self.pending.get(source, NEVER))

    def _answer(self, out: list[Message]) -> None:
        """Acknowledge the pending updates that happen before this vertex's own."""
        for source, time in sorted(self.pending.items()):
            if self._acknowledges(source, time):
                del self.pending[source]
                self.prepares[source] = time
                out.append(self._acknowledgement(source, time))

    def _acknowledges(self, source: int, time: Time) -> bool:
        """The Lamport test; and the update of the producer's preparation before has come."""
        return source not in self.prepares and (self.time is None or self.time > time)

    def _acknowledgement(self, producer: int, time: Time) -> Acknowledge:
        return Acknowledge(self.vertex, producer, time, self.committed, self.clock)

    def _on_acknowledge(self, acknowledge: Acknowledge) -> None:
        """OnReceiveAcknowledge: τ(x) = max(τ(x), τ(y)). One of another time comes too late."""
        self.clock = max(self.clock, acknowledge.clock)
        if acknowledge.time == self.time and acknowledge.source in self.waiting:
            self.waiting.remove(acknowledge.source)
            self.iteration = max(self.iteration, acknowledge.iteration)

    def _may_commit(self, out: list[Message]) -> bool:
        """Whether to commit now; prepares first (OnPrepareUpdate) where that is needed."""
        if self.time is None or self._blocked() or self.iteration > self.last:
            return False
        if self._farthest():
            return True
        if not self.preparing:
            self.asked = (self.consumers | self.leaving) - {self.vertex}
            self.waiting = set(self.asked)
            for consumer in sorted(self.asked):
                out.append(Prepare(self.vertex, consumer, self.time))
        return not self.waiting

    def _blocked(self) -> bool:
        """Whether the vertex is involved in an update of a producer."""
        return bool(self.prepares)

    def _farthest(self) -> bool:
        """Whether the commit would be in τ+B-1, where no consumer can be further (4.4)."""
        return self.iteration >= self.tau + self.bound - 1

    # Phase 3 -------------------------------------------------------------------------------------

    def _commit(self, out: list[Message]) -> None:
        """OnCommitUpdate: send the new values, release the others that were asked."""
        assert self.time is not None
        values = self.method.scatter(self.iteration)
        targets = self.consumers | self.leaving
        for target in values.keys() - targets:
            raise ProgramError(
                f"vertex {self.vertex} sends to {target}, which is not its target: add it first"
            )
        for target in sorted(targets):
            value = values.get(target)
            if value is not None or target in self.asked:
                update = Update(self.vertex, target, self.time, self.iteration, value)
                if target == self.vertex:
                    self.held.append(update)
                else:
                    out.append(update)
        self.committed = self.iteration
        self.since = self.time = None
        self.asked, self.waiting, self.leaving = set(), set(), set()
