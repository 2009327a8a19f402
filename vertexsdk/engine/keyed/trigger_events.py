"""The events of one batch of a trigger program: which triggers are to run, for which rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from vertexsdk.program.trigger_program import Version

FIRST: Final[Version] = (0, 0)


def later(one: Version, other: Version) -> Version:
    """Return the elementwise maximum of two versions.

    >>> later((1, 5), (2, 1))
    (2, 5)
    """
    return max(one[0], other[0]), max(one[1], other[1])


class Events:
    """Events that wait, those of one row merged: a later one makes an earlier one redundant.

    Args:
        triggers: how many there are.
        every: merge no events.

    Attributes:
        counts: how many events each trigger had.
        waiting: by trigger and key, the version of what waits for the end of the round.
        urgent: by trigger and key, the version of what does not wait, the oldest first.
        activated: by trigger and filter, the version of what is to run for all rows.
    """

    def __init__(self, triggers: int, *, every: bool) -> None:
        self.counts, self._every = [0] * triggers, every
        self.clear()

    def clear(self) -> None:
        """Forget all events."""
        self.waiting: dict[int, dict[Any, Version]] = {}
        self.urgent: dict[tuple[Any, ...], Version] = {}
        self.activated: dict[int, dict[str, Version]] = {}

    def fire(self, t: int, key: Any, version: Version, *, urgent: bool) -> None:
        """Have a trigger run for a row.

        Args:
            t: the place of the trigger.
            key: key of the row.
            version: version of what has changed.
            urgent: it does not wait for the end of the round.
        """
        self.counts[t] += 1
        if urgent:
            event = (t, key, self.counts[t]) if self._every else (t, key)
            self.urgent[event] = later(version, self.urgent.get(event, FIRST))
            return
        waiting = self.waiting.get(t)
        if waiting is None:
            waiting = self.waiting[t] = {}
        previous = waiting.get(key)
        same = previous is None or previous == version
        waiting[key] = version if same else later(version, previous)  # type: ignore[arg-type]

    def fire_rows(self, t: int, keys: Iterable[Any], version: Version, count: int) -> None:
        """Have a trigger run for some rows at the end of the round.

        Args:
            t, version: as for `fire`.
            keys: keys of the rows.
            count: how many events these are.
        """
        self.counts[t] += count
        waiting = self.waiting.setdefault(t, {})
        for key in keys:
            previous = waiting.get(key)
            same = previous is None or previous == version
            waiting[key] = version if same else later(version, previous)  # type: ignore[arg-type]

    def activate(self, t: int, where: str, version: Version) -> None:
        """Have a trigger run for all rows, at the end of the round.

        Args:
            t: the place of the trigger.
            where: the name of the filter of rows; "" for none.
            version: version of what has activated it.
        """
        filters = self.activated.setdefault(t, {})
        filters[where] = later(version, filters.get(where, FIRST))

    @property
    def count(self) -> int:
        """The number of rows with events, plus the number of activated filters."""
        several = (*self.waiting.values(), *self.activated.values())
        return len(self.urgent) + sum(map(len, several))

    def take(self) -> tuple[dict[int, dict[Any, Version]], dict[int, dict[str, Version]]]:
        """Return what waits, and what is activated, at the end of a round."""
        taken = self.waiting, self.activated
        self.waiting, self.activated = {}, {}
        return taken

    def next_urgent(self) -> tuple[Any, ...]:
        """Return the urgent event that is taken next."""
        return next(iter(self.urgent))

    def take_urgent(self) -> tuple[int, Any, Version]:
        """Return the trigger, the key and the version of the next urgent event."""
        event: Sequence[Any] = self.next_urgent()
        return event[0], event[1], self.urgent.pop(tuple(event))
