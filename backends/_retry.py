"""Retries with exponential back-off when a server is lost, and the server's clock.

Every step that is retried is idempotent: puts write the same bytes, and a swap carries a token by
which the server recognises a swap that it has already done.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from vertexsdk.state.errors import StateError, StateInputError

__all__ = ["Clash", "Clock", "Lost", "patience", "persist"]

T = TypeVar("T")
_FIRST, _LONGEST = 0.05, 2.0  # seconds between attempts
_MAX_CLASHES = 4
_CLOCK_AGE = 60.0  # seconds after which the server is asked for the time again


class Lost(Exception):
    """The server does not answer now."""


class Clash(Lost):
    """The server answers, but another transaction conflicts: a retry may succeed."""


class Clock:
    """A server's clock: asked every minute, and extrapolated by this host's monotonic clock.

    Args:
        ask: returns the server's seconds since 1970.
    """

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask
        self._answer: tuple[float, float] | None = None  # and when it came

    def now(self) -> float:
        """The server's seconds since 1970."""
        steady = time.monotonic()
        if self._answer is None or steady - self._answer[1] > _CLOCK_AGE:
            self._answer = self._ask(), steady
        server, asked = self._answer
        return server + steady - asked


def persist(work: Callable[[], T], location: str, seconds: float, again: Callable[[], None]) -> T:
    """Run `work` until it does not raise `Lost`, for at most `seconds` after the first failure.

    Args:
        again: called before each retry, to drop the connection.

    Raises:
        StateError: the server stayed away.
    """
    pause, end, clashes = _FIRST, 0.0, 0
    while True:
        try:
            return work()
        except Lost as error:
            clashes += isinstance(error, Clash)
            if clashes > _MAX_CLASHES:
                raise StateError(
                    f"{location} still has conflicting transactions after retries: {error}"
                ) from None
            end = end or time.monotonic() + seconds
            if time.monotonic() + pause > end:
                raise StateError(
                    f"lost {location} and could not reach it again for {seconds:g} s "
                    f"({error}): what was committed is kept; run again when the server is back"
                ) from None
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, _LONGEST)
            if not isinstance(error, Clash):
                again()


def patience(options: dict[str, list[str]], location: str) -> float:
    """Pop the URL option `retry=`: the seconds to retry for, 15 by default."""
    try:
        return max(0.0, float(options.pop("retry", ["15"])[0]))
    except ValueError:
        raise StateInputError(f"{location}: retry= takes a number of seconds") from None
