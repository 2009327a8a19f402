"""Shared parts of backends on a server: connections per process, retries, the server's clock.

A step that meets a lost server is retried with exponential back-off. Every such step is idempotent:
puts write the same bytes, and a swap carries a token by which the server recognises a swap that it
has already done.
"""

from __future__ import annotations

import logging
import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from vertexsdk.state.address import Address
from vertexsdk.state.contract import Backend, SegmentKey
from vertexsdk.state.errors import MissingError, StateError, StateInputError

T = TypeVar("T")
_log = logging.getLogger("vertexsdk")
_FIRST, _LONGEST = 0.05, 2.0  # seconds between attempts
_SILENT = 0.5  # seconds between attempts from which the wait is said
_MAX_CONFLICTS = 4
REFUSED = "refuses the user name or password: check those in the URL"
READABLE = "what was committed before is still readable"
_CLOCK_AGE = 60.0  # seconds after which the server is asked for the time again


class ConnectionLost(Exception):
    """The server does not answer now."""


class Conflict(ConnectionLost):
    """The server answers, but another transaction conflicts: a retry may succeed."""


class Server(ABC):
    """A server's connection, made when it is first used, in each process anew.

    Args:
        url: the URL, which may contain a password.
        location: the URL without it.
        retry: seconds to retry for when the server is lost.
    """

    errors: ClassVar[type[Exception]]  # the base class of the client library's errors

    def __init__(self, url: str, location: str, retry: float) -> None:
        self.url, self.location, self.retry = url, location, retry
        self._connection: Any = None
        self._process = 0

    def run(self, work: Callable[[Any], T]) -> T:
        """Run `work` with the connection, and again while the server is lost.

        Raises:
            StateInputError: the server refuses the user, the password or the permission.
            FullError: it has no memory, or no disk, left.
            StateError: it stays away, or cannot do this.
        """
        pause, end, conflicts = _FIRST, 0.0, 0
        while True:
            try:
                return self._once(work)
            except ConnectionLost as error:
                conflicts += isinstance(error, Conflict)
                if conflicts > _MAX_CONFLICTS:
                    raise StateError(
                        f"{self.location} still has conflicting transactions after retries: {error}"
                    ) from None
                end = end or time.monotonic() + self.retry
                if time.monotonic() + pause > end:
                    raise StateError(
                        f"lost {self.location} and could not reach it again for {self.retry:g} s "
                        f"({error}): what was committed is kept; run again when the server is back"
                    ) from None
                if pause < _SILENT <= 2 * pause:
                    _log.warning(
                        "%s does not answer (%s); trying again for %g s",
                        self.location, error, self.retry,
                    )  # fmt: skip
                time.sleep(pause * random.uniform(0.5, 1))
                pause = min(2 * pause, _LONGEST)
                if not isinstance(error, Conflict):
                    self._drop_lost()

    def reach(self, work: Callable[[Any], T]) -> T:
        """Run `work` as the first thing, once.

        Raises:
            StateError: the server cannot be reached now.
        """
        try:
            return self._once(work)
        except ConnectionLost as error:
            raise StateError(
                f"{self.location} cannot be reached ({error}): start the server, or check the URL"
            ) from None

    def close(self) -> None:
        """Close the connection, unless it is a parent process's."""
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            connection.close()

    def _once(self, work: Callable[[Any], T]) -> T:
        try:
            if self._connection is None or self._process != os.getpid():
                self._connection, self._process = self._connect(), os.getpid()
            return work(self._connection)
        except self.errors as error:
            kind, text = self._explained(error)
            lost = issubclass(kind, ConnectionLost)  # `run` and `reach` name the server
            raise kind(text if lost else f"{self.location} {text}") from None

    @abstractmethod
    def _connect(self) -> Any:
        """Return a new connection."""

    def _drop_lost(self) -> None:  # noqa: B027 (a client may connect again by itself)
        """Drop a connection that was lost."""

    @abstractmethod
    def _explained(self, error: Any) -> tuple[type[Exception], str]:
        """The error to raise for one of the client library's, and what is wrong with the server."""


class ServerBackend(Backend):
    """A backend on a `Server`, shared between hosts; times are the server's."""

    shared = True

    def __init__(self, server: Server) -> None:
        self._server, self._run = server, server.run
        self.location = server.location
        self._time: tuple[float, float] | None = None  # the server's, and this host's then

    @property
    def address(self) -> Address:
        return Address(self._server.url)

    @property
    def durable(self) -> bool:  # type: ignore[override]
        return self._durability()[0]

    @property
    def durability(self) -> str:  # type: ignore[override]
        return self._durability()[1]

    def now(self) -> float:
        """The server's clock, extrapolated by this host's monotonic clock for a minute."""
        steady = time.monotonic()
        if self._time is None or steady - self._time[1] > _CLOCK_AGE:
            self._time = self._run(self._server_time), steady
        server, asked = self._time
        return server + steady - asked

    def close(self) -> None:
        self._server.close()

    def _complete(
        self, ranges: list[bytes], places: list[tuple[int, int]], key: SegmentKey
    ) -> list[bytes]:
        """Return byte ranges (low, high) of a segment, unless they are cut off by its deletion."""
        if [len(part) for part in ranges] != [high - low for low, high in places]:
            raise MissingError(f"segment {key} in {self.location} was dropped while it was read")
        return ranges

    @abstractmethod
    def _durability(self) -> tuple[bool, str]:
        """Return whether a power cut loses nothing that was acknowledged, and what it may lose."""

    @staticmethod
    @abstractmethod
    def _server_time(connection: Any) -> float:
        """The server's seconds since 1970."""


def retry_seconds(options: dict[str, list[str]], location: str) -> float:
    """Pop the URL option `retry=`: the seconds to retry for, 15 by default."""
    try:
        return max(0.0, float(options.pop("retry", ["15"])[0]))
    except ValueError:
        raise StateInputError(f"{location}: retry= takes a number of seconds") from None
