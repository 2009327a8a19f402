"""The first phase of the protocol: what a vertex gathers and what it holds. Tornado, 4.2, 4.4."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.protocol.events import Input, Method, Time, Update

__all__ = ["NEVER", "Gathering"]

NEVER = Time(-1, -1)


class Gathering:
    """The state of one vertex, and the first phase of its updates.

    Args:
        vertex: its id.
        bound: the delay bound B, at least 1.
        method: what it computes.
        consumers: those it has from the beginning.
    """

    __slots__ = (
        "asked",
        "bound",
        "clock",
        "committed",
        "consumers",
        "finished",
        "held",
        "inputs",
        "iteration",
        "last",
        "leaving",
        "method",
        "pending",
        "prepares",
        "since",
        "tau",
        "time",
        "vertex",
        "waiting",
    )

    def __init__(
        self, vertex: int, bound: int, method: Method, consumers: Iterable[int] = ()
    ) -> None:
        self.vertex = vertex
        self.bound = bound
        self.method = method
        self.consumers = set(consumers)
        self.leaving: set[int] = set()  # removed, and not told yet
        self.committed = -1  # iteration of the last commit
        self.iteration = 0  # of the next commit, as far as known
        self.since: int | None = None  # first iteration with something to do; None: nothing to do
        self.tau = 0
        self.last = bound - 1
        self.clock = 0
        self.time: Time | None = None  # of the update under way
        self.asked: set[int] = set()  # consumers that were sent PREPARE for it
        self.waiting: set[int] = set()  # those of them that have not acknowledged
        self.prepares: dict[int, Time] = {}  # the prepare list: producers acknowledged
        self.pending: dict[int, Time] = {}  # producers to acknowledge later
        self.held: list[Update] = []
        self.inputs: list[Input] = []
        self.finished: dict[int, Time] = {}  # by producer, the newest update received

    @property
    def low(self) -> int | None:
        """The first iteration that this vertex keeps from terminating; None: nothing to do (4.3).

        That is the iteration since which it has something to do, not the one which later updates
        have raised it to. So τ stays there until it commits, which is at most in τ+B-1: every
        vertex is updated at least once in B iterations (appendix A, part 2).
        """
        lows = [update.iteration + 1 for update in self.held]
        lows += [self._earliest(given) for given in self.inputs]
        if self.since is not None:
            lows.append(self.since)
        return min(lows, default=None)

    @property
    def preparing(self) -> bool:
        """Whether PREPAREs of an update are under way (phase 2)."""
        return bool(self.asked)

    def _on_update(self, update: Update) -> None:
        """OnReceiveUpdate: the producer leaves the prepare list; the value is held or gathered."""
        self.clock = max(self.clock, update.time.clock)
        if self._duplicate(update):
            return
        if self.prepares.get(update.source) == update.time:
            del self.prepares[update.source]
        finished = max(update.time, self.finished.get(update.source, NEVER))
        self.finished[update.source] = finished
        if self.pending.get(update.source, finished) <= finished:
            self.pending.pop(update.source, None)
        if update.value is not None:
            self.held.append(update)

    def _duplicate(self, update: Update) -> bool:
        """Whether it came before. One that is awaited did not, even if a newer one overtook it."""
        if self.prepares.get(update.source) == update.time:
            return False
        return update.time <= self.finished.get(update.source, NEVER)

    def _holds(self, update: Update) -> bool:
        """4.4: what was committed in τ+B-1 waits for τ, and for what it overtook."""
        overtook = update.time > self.prepares.get(update.source, update.time)
        return overtook or update.iteration >= self.last

    def _gather_held(self) -> None:
        """Gather what may be: τ(x) = max(τ(x), τ(δ)+1)."""
        if not self.held:
            return
        ready = [update for update in self.held if not self._holds(update)]
        self.held = [update for update in self.held if self._holds(update)]
        for update in sorted(ready, key=lambda update: update.time):
            self._begin(update.iteration + 1)
            self.method.gather(update.iteration, update.source, update.value)

    def _gather_inputs(self) -> None:
        """Inputs are gathered in order, none while preparing, as they may change the consumers."""
        while self.inputs and self._takes_inputs():
            given = self.inputs.pop(0)
            self._begin(self._earliest(given))
            self.consumers = (self.consumers | set(given.added)) - set(given.removed)
            self.leaving = (self.leaving | set(given.removed)) - self.consumers
            self.method.gather(given.iteration, None, given.value)

    def _takes_inputs(self) -> bool:
        return not self.preparing and self._earliest(self.inputs[0]) <= self.last

    def _earliest(self, given: Input) -> int:
        return max(given.iteration, self.committed + 1)

    def _begin(self, iteration: int) -> None:
        """There is something to do, in `iteration` at the earliest; take the update time."""
        self.iteration = max(self.iteration, iteration, self.committed + 1)
        if self.since is None:
            self.since = self.iteration
            self.clock += 1
            self.time = Time(self.clock, self.vertex)
