"""Where an events loop stands, as its driver knows it; and which versions are still needed."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from vertexsdk.compile.plan import Plan
from vertexsdk.engine.events._events_task import EventTask
from vertexsdk.engine.events._records import Chain
from vertexsdk.graph.string_ids import StringIds
from vertexsdk.transport.transport import Exchange


@dataclass(frozen=True)
class Position:
    """One version of a loop.

    Attributes:
        chains: where its partitions are.
        iteration: the next one to run.
        since: the one that was next when something came in last.
        reason: why iterations ended; None if there is more to do.
        wake: every vertex is to scatter once.
        moved: vertices have come or gone since it was written.
        names: of string ids.
        written: whether it was ever written, and with how many names.
    """

    chains: tuple[Chain, ...]
    iteration: int = 0
    since: int = 0
    aggregates: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    wake: bool = False
    moved: bool = True
    vertices: int = 0
    edges: int = 0
    names: StringIds | None = None
    written: int | None = None


class VersionPool:
    """What an engine and its forks share: the plan, the versions in use, the numbers of keys.

    Args:
        make: makes what carries hops out.
        forget: drops what is resident under a prefix, wherever it is.
    """

    def __init__(
        self,
        plan: Plan,
        task: EventTask,
        make: Callable[[EventTask], Exchange],
        forget: Callable[[str], None],
    ) -> None:
        self.plan, self.task, self._make, self._forget = plan, task, make, forget
        self.numbers = itertools.count()
        self._uses: Counter[str] = Counter()
        self._garbage: list[str] = []
        self._lock = threading.Lock()
        self.engines = 0

    def hops(self) -> Exchange:
        """Make an exchange of one's own."""
        return self._make(self.task)

    def hold(self, chains: Iterable[Chain]) -> None:
        """Say that a version is in use, once more."""
        with self._lock:
            self._uses.update(key for chain in chains for key, _ in chain)

    def release(self, chains: Iterable[Chain]) -> None:
        """Say that a version is in use once less."""
        with self._lock:
            for chain in chains:
                for key, _ in chain:
                    self._uses[key] -= 1
                    if not self._uses[key]:
                        del self._uses[key]
                        self._garbage.append(key)

    def garbage(self) -> tuple[str, ...]:
        """Keys to drop, each given once."""
        with self._lock:
            found, self._garbage = tuple(self._garbage), []
            return found

    def join(self) -> None:
        """Count one more engine."""
        with self._lock:
            self.engines += 1

    def leave(self) -> None:
        """Count one engine less; with the last all is dropped."""
        with self._lock:
            self.engines -= 1
            last = not self.engines
        if last:
            self._forget(self.plan.run)
