"""The connection to a Redis server: its URL, its errors in plain words, what it makes durable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from vertexsdk.backends._server import READABLE, REFUSED, ConnectionLost, Server, retry_seconds
from vertexsdk.errors import first_line
from vertexsdk.state.address import redacted
from vertexsdk.state.errors import FullError, StateError, StateInputError

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError
    from redis.retry import Retry
except ImportError as error:
    raise StateInputError("redis:// needs a package: pip install 'vertexsdk[redis]'") from error

_ALWAYS = "set appendfsync always"
_AOF = "set appendonly yes and appendfsync always"

T = TypeVar("T")
_TIMEOUT = 60.0  # seconds for one command
_CONNECT = 5.0


class RedisServer(Server):
    """The keys of one prefix in one database.

    Args:
        url: `redis://[[user]:password@]host[:port][/database]`, or `rediss://...`.

    Attributes:
        prefix: the beginning of all keys, without the colon.

    Raises:
        StateInputError: the URL is wrong; the message has no password.
    """

    errors = RedisError

    def __init__(self, url: str) -> None:
        shown = redacted(url)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "localhost", parts.port or 6379
            number = int(parts.path.strip("/") or "0")
            options = parse_qs(parts.query, strict_parsing=bool(parts.query))
        except ValueError:
            raise StateInputError(
                f"{shown} is not a Redis URL: write "
                "redis://[[user]:password@]host[:port][/database]"
            ) from None
        retry = retry_seconds(options, shown)
        self.prefix = options.pop("prefix", ["vertexsdk"])[0]
        if ":" in self.prefix:  # the keys of a:segments would be among those of a
            raise StateInputError(f"{shown}: prefix= takes a name without ':'")
        tls = {name: options.pop(name)[0] for name in ("ca", "cert", "key") if name in options}
        if options or (tls and parts.scheme != "rediss"):
            wrong = min([*options, *tls])
            raise StateInputError(
                f"{shown}: no option {wrong!r}, only prefix=, retry=, and with rediss:// ca=, "
                "cert= and key="
            )
        self._timeout = _TIMEOUT
        self._settings: dict[str, Any] = {
            "host": host,
            "port": port,
            "db": number,
            "username": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password) if parts.password else None,
        }
        if parts.scheme == "rediss":
            names = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}
            # redis-py before 6 does not compare the host's name unless it is told to
            self._settings |= {"ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
            self._settings |= {names[name]: value for name, value in tls.items()}
        super().__init__(url, f"{parts.scheme}://{host}:{port}/{number}", retry)

    def reach(self, work: Callable[[Any], T]) -> T:
        if self._settings.get("ssl"):  # a server without TLS never answers the handshake
            self._timeout = _CONNECT
            super().reach(lambda r: r.ping())
            self.close()
            self._timeout = _TIMEOUT
        return super().reach(work)

    def _connect(self) -> Any:
        settings = {
            **self._settings,
            "socket_timeout": self._timeout,
            "socket_connect_timeout": _CONNECT,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
        }
        try:  # not to look up the client's version and tell it, which is half of a cold read
            return redis.Redis(**settings, driver_info=None)
        except TypeError:  # an older client
            return redis.Redis(**settings, lib_name=None, lib_version=None)

    def _explained(self, error: RedisError) -> tuple[type[Exception], str]:
        message = first_line(error)
        kinds = redis.exceptions
        refused = message.startswith(("WRONGPASS", "NOAUTH"))
        if refused or isinstance(error, kinds.AuthenticationError):
            return StateInputError, REFUSED
        if isinstance(error, kinds.NoPermissionError):
            return StateInputError, f"does not permit this to the user: {message}"
        if isinstance(error, kinds.OutOfMemoryError) or "OOM " in message:
            advice = "raise its maxmemory, or collect what is not needed"
            return FullError, f"has no memory left: {advice}; {READABLE}"
        if "MISCONF" in message:
            cause = "cannot write to its disk, and so takes nothing: see its log"
            return FullError, f"{cause}; {READABLE}"
        if isinstance(error, kinds.ReadOnlyError):
            return StateError, "is a read-only replica: name the primary"
        if "DB index is out of range" in message:
            return StateInputError, "has no such database"
        disconnected = (kinds.ConnectionError, kinds.TimeoutError, kinds.BusyLoadingError)
        if isinstance(error, disconnected):
            return ConnectionLost, message
        return StateError, f"cannot do this: {message}"


def durability_of(settings: dict[str, str]) -> tuple[bool, str]:
    """Return whether a power cut loses nothing that was acknowledged, and what it may lose.

    Args:
        settings: the server's, by name; empty if the user may not read them.
    """
    if not settings:
        return False, "what a power cut loses is not known: this user may not read the settings"
    evicts = ""
    if settings.get("maxmemory", "0") != "0" and settings.get("maxmemory-policy") != "noeviction":
        evicts = "; and the server evicts keys when it is full: set maxmemory-policy noeviction"
    if settings.get("appendonly") == "yes":
        if settings.get("appendfsync") == "always":
            return not evicts, "every acknowledged commit survives a power cut" + evicts
        if settings.get("appendfsync") == "everysec":
            return False, f"a power cut loses the last second or two: {_ALWAYS}{evicts}"
        return (
            False,
            f"a power cut loses what the system had not written out yet: {_ALWAYS}{evicts}",
        )
    if settings.get("save"):
        return False, f"a crash of the server loses all since its last snapshot: {_AOF}{evicts}"
    return False, f"a restart of the server loses everything: {_AOF}{evicts}"
