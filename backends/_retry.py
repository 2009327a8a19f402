"""What to do when a server is lost: try again with back-off, for a while, then say so.

Every step that is tried again is one that may be done twice: puts write the same bytes, and a
swap carries a token by which the server knows that it has done it already.
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
_CLASHES = 4  # after which it is no accident
_FRESH = 60.0  # seconds for which an answer about the time is good


class Lost(Exception):
    """The server does not answer now."""


class Clash(Lost):
    """Another transaction was in the way: it answers, and the same may succeed a moment later."""


class Clock:
    """A server's clock: asked now and then, and carried on by this host's steady clock.

    Args:
        ask: gives the server's seconds since 1970.
    """

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask
        self._answer: tuple[float, float] | None = None  # and when it came

    def now(self) -> float:
        """Seconds since 1970, whatever time it is on this host."""
        steady = time.monotonic()
        if self._answer is None or steady - self._answer[1] > _FRESH:
            self._answer = self._ask(), steady
        said, at = self._answer
        return said + steady - at


def persist(work: Callable[[], T], location: str, seconds: float, again: Callable[[], None]) -> T:
    """Run `work` until it is not `Lost`, for at most `seconds` after the first failure.

    Args:
        again: called before each further attempt, to drop the connection.

    Raises:
        StateError: the server stayed away.
    """
    pause, end, clashes = _FIRST, 0.0, 0
    while True:
        try:
            return work()
        except Lost as error:
            clashes += isinstance(error, Clash)
            if clashes > _CLASHES:
                raise StateError(
                    f"{location} cannot do this, nor a moment later: {error}"
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
    """The seconds of the URL's option `retry=`, which is taken out of the options; 15 if none."""
    given = options.pop("retry", ["15"])[0]
    try:
        return max(0.0, float(given))
    except ValueError:
        raise StateInputError(f"{location}: retry= takes a number of seconds") from None
