"""The engine of a branch that may never need one: a fork of a loop which was at its fixed point.

Its answer is the state that is in the store already. An engine is made when it is asked for more:
by forking that of the origin, while that stands where the branch was forked, else from the store.
"""

from __future__ import annotations

from collections.abc import Callable

from vertexsdk.engine import Effort, Engine, Orders, Outcome
from vertexsdk.state import SegmentRef

__all__ = ["LaterEngine"]


class LaterEngine:
    """See `engine.Engine`.

    Args:
        origin: the engine which would have been forked.
        make: makes an engine that stands where the branch was forked.
        known: what `advance` reports while nothing has changed.
    """

    def __init__(self, origin: Engine, make: Callable[[], Engine], known: Outcome) -> None:
        self.integers, self.value, self.from_init = origin.integers, origin.value, origin.from_init
        self._make, self._known = make, known
        self.made: Engine | None = None

    def engine(self) -> Engine:
        """The engine, which is made if it is not there yet."""
        if self.made is None:
            self.made = self._make()
        return self.made

    def advance(self, orders: Orders) -> Outcome:
        """See `Engine.advance`."""
        if self.made is not None or (orders.changes is not None and len(orders.changes)):
            return self.engine().advance(orders)
        known = self._known
        return Outcome(
            effort=Effort(residual=known.effort.residual, quiet=True, reason="quiet"),
            iteration=known.iteration,
            num_vertices=known.num_vertices,
            num_edges=known.num_edges,
            start="warm",
            start_reason="the loop that it was forked from was at its fixed point",
            aggregates=known.aggregates,
        )

    def fork(self) -> Engine:
        """See `Engine.fork`."""
        return self.engine().fork()

    def adopt(self, fork: Engine) -> None:
        """See `Engine.adopt`."""
        self.engine().adopt(fork)

    def checkpoint(self) -> list[SegmentRef]:
        """See `Engine.checkpoint`."""
        return self.engine().checkpoint()

    def close(self) -> None:
        """See `Engine.close`."""
        if self.made is not None:
            self.made.close()
