"""The connection to a Redis server: its URL, its errors in plain words, what it makes durable."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from vertexsdk.backends._retry import Lost, patience, persist
from vertexsdk.state.address import redacted
from vertexsdk.state.errors import FullError, StateError, StateInputError

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError
    from redis.retry import Retry
except ImportError as error:
    raise StateInputError("redis:// needs a package: pip install 'vertexsdk[redis]'") from error

__all__ = ["Server"]

T = TypeVar("T")
_TIMEOUT = 60.0  # seconds for one command
_CONNECT = 5.0


@dataclass
class Server:
    """One database of a server, connected to when it is first used, in each process anew."""

    url: str = field(repr=False)
    location: str
    prefix: str
    retry: float
    settings: dict[str, Any] = field(repr=False)

    def __post_init__(self) -> None:
        self._client: Any = None
        self._process = 0

    @classmethod
    def from_url(cls, url: str) -> Server:
        """The server of a URL.

        Raises:
            StateInputError: the URL is wrong; the message has no password.
        """
        shown = redacted(url)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "localhost", parts.port or 6379
            number = int(parts.path.strip("/") or "0")
            options = parse_qs(parts.query, strict_parsing=bool(parts.query))
        except ValueError:
            raise StateInputError(
                f"{shown} is no Redis URL: write redis://[[user]:password@]host[:port][/database]"
            ) from None
        retry = patience(options, shown)
        prefix = options.pop("prefix", ["vertexsdk"])[0]
        if ":" in prefix:  # the keys of a:segments would be among those of a
            raise StateInputError(f"{shown}: prefix= takes a name without ':'")
        tls = {name: options.pop(name)[0] for name in ("ca", "cert", "key") if name in options}
        if options or (tls and parts.scheme != "rediss"):
            wrong = min([*options, *tls])
            raise StateInputError(
                f"{shown}: no option {wrong!r}, only prefix=, retry=, and with rediss:// ca=, "
                "cert= and key="
            )
        settings: dict[str, Any] = {
            "host": host,
            "port": port,
            "db": number,
            "username": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password) if parts.password else None,
        }
        if parts.scheme == "rediss":
            names = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}
            # redis-py before 6 does not compare the host's name unless it is told to
            settings |= {"ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
            settings |= {names[name]: value for name, value in tls.items()}
        return cls(url, f"{parts.scheme}://{host}:{port}/{number}", prefix, retry, settings)

    def run(self, work: Callable[[Any], T]) -> T:
        """Run `work` with a client, again and again if the server is lost.

        Raises:
            StateInputError: the server refuses the user or the password.
            FullError: it has no memory, or no disk, left.
            StateError: it stays away, or cannot do this.
        """
        return persist(lambda: self._once(work), self.location, self.retry, lambda: None)

    def reach(self, work: Callable[[Any], T]) -> T:
        """Run `work` as the first thing, once.

        Raises:
            StateError: the server cannot be reached now.
        """
        try:
            if self.settings.get("ssl"):  # a server without TLS never answers the handshake
                self._client = self._connect(_CONNECT)
                self._once(lambda r: r.ping())
                self.close()
            return self._once(work)
        except Lost as error:
            raise StateError(
                f"{self.location} cannot be reached ({error}): start the server, or check --backend"
            ) from None

    def durability(self) -> tuple[bool, str]:
        """Whether a power cut loses nothing that was acknowledged; and what it may lose."""
        settings: dict[str, str] = {}
        with suppress(StateError, StateInputError):  # a user may not be allowed to ask
            settings = self.run(
                lambda r: {
                    _text(k): _text(v)
                    for k, v in r.config_get(
                        "appendonly", "appendfsync", "save", "maxmemory-policy", "maxmemory"
                    ).items()
                }
            )
        return _durability(settings)

    def close(self) -> None:
        """Let go of the connections."""
        if self._client is not None and self._process == os.getpid():
            self._client.close()
        self._client = None

    def _once(self, work: Callable[[Any], T]) -> T:
        if self._client is None or self._process != os.getpid():
            self._client = self._connect(_TIMEOUT)
        try:
            return work(self._client)
        except RedisError as error:
            raise self._explained(error) from None

    def _connect(self, seconds: float) -> Any:
        self._process = os.getpid()
        settings = {
            **self.settings,
            "socket_timeout": seconds,
            "socket_connect_timeout": _CONNECT,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
        }
        try:  # not to look up the client's version and tell it, which is half of a cold read
            return redis.Redis(**settings, driver_info=None)
        except TypeError:  # an older client
            return redis.Redis(**settings, lib_name=None, lib_version=None)

    def _explained(self, error: RedisError) -> Exception:
        said = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        kinds = redis.exceptions
        if isinstance(error, kinds.AuthenticationError) or said.startswith(("WRONGPASS", "NOAUTH")):
            return StateInputError(
                f"{self.location} refuses the user name or password: check those in --backend"
            )
        if isinstance(error, kinds.NoPermissionError):
            return StateInputError(f"{self.location} does not permit this to the user: {said}")
        if isinstance(error, kinds.OutOfMemoryError) or "OOM " in said:
            return FullError(
                f"{self.location} has no memory left: raise its maxmemory, or collect what is not "
                "needed; what was committed before is still readable"
            )
        if "MISCONF" in said:
            return FullError(
                f"{self.location} cannot write to its disk, and so takes nothing: see its log; "
                "what was committed before is still readable"
            )
        if isinstance(error, kinds.ReadOnlyError):
            return StateError(f"{self.location} is a read-only replica: name the primary")
        if "DB index is out of range" in said:
            return StateInputError(f"{self.location}: the server has no such database")
        gone = (kinds.ConnectionError, kinds.TimeoutError, kinds.BusyLoadingError)
        if isinstance(error, gone):
            return Lost(said)
        return StateError(f"{self.location} cannot do this: {said}")


def _text(raw: Any) -> str:
    return raw.decode() if isinstance(raw, bytes) else str(raw)


def _durability(settings: dict[str, str]) -> tuple[bool, str]:
    if not settings:
        return False, "unknown: this user may not read the server's settings"
    evicts = ""
    if settings.get("maxmemory", "0") != "0" and settings.get("maxmemory-policy") != "noeviction":
        evicts = "; and the server evicts keys when it is full: set maxmemory-policy noeviction"
    if settings.get("appendonly") == "yes":
        if settings.get("appendfsync") == "always":
            return not evicts, "every acknowledged commit survives a power cut" + evicts
        if settings.get("appendfsync") == "everysec":
            return False, "a power cut loses the last second or two" + evicts
        return False, "a power cut loses what the system had not written out yet" + evicts
    if settings.get("save"):
        return False, "a crash of the server loses all since its last snapshot" + evicts
    return False, "a restart of the server loses everything: it keeps nothing on disk" + evicts
