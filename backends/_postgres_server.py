"""The connection to a PostgreSQL server: its URL, and its errors in plain words."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from vertexsdk.backends._retry import Clash, Lost, patience, persist
from vertexsdk.state.address import redacted
from vertexsdk.state.errors import FullError, StateError, StateInputError

try:
    import psycopg
except ImportError as error:
    raise StateInputError(
        "postgresql:// needs a package: pip install 'vertexsdk[postgres]'"
    ) from error

__all__ = ["Server"]

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
_LONGEST = 63  # bytes of a name
_LOCAL = {"", "localhost", "::1"}
_ADVICE = "write postgresql://[user[:password]@]host[:port]/database[?sslmode=verify-full&...]"


@dataclass
class Server:
    """One schema of a database, connected to when it is first used, in each process anew."""

    url: str = field(repr=False)
    location: str
    schema: str
    retry: float
    conninfo: str = field(repr=False)
    advice: str = ""

    def __post_init__(self) -> None:
        self._link: Connection | None = None
        self._process = 0
        self._lock = threading.RLock()

    @classmethod
    def from_url(cls, url: str) -> Server:
        """The server of a URL.

        Raises:
            StateInputError: the URL is wrong; the message has no password.
        """
        shown = redacted(url)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
            options = parse_qs(parts.query, strict_parsing=bool(parts.query))
            retry = patience(options, shown)
            schema = options.pop("schema", ["public"])[0]
            rest = urlencode(options, doseq=True, quote_via=quote)
            conninfo = f"postgresql://{parts.netloc}{parts.path}?{rest}"
            given = psycopg.conninfo.conninfo_to_dict(conninfo)
            if "@" in parts.path:  # what stands before it may be the rest of a password
                raise ValueError
        except StateInputError:
            raise
        except (ValueError, psycopg.Error):
            raise StateInputError(f"{shown.partition('?')[0]} is no such URL: {_ADVICE}") from None
        for what, name in (("schema", schema), ("database", str(given.get("dbname", "")))):
            if len(name.encode()) > _LONGEST or "\0" in name:
                raise StateInputError(
                    f"{what} {name[:40]!r}...: PostgreSQL cuts names above {_LONGEST} bytes, "
                    "so two could be one: choose a shorter name"
                )
        place = f"{host}:{port}" if port else host
        location = f"postgresql://{place}{parts.path}"
        location += f"?schema={schema}" if schema != "public" else ""
        return cls(url, location, schema, retry, conninfo, _advice(given, location))

    def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work` with the connection, again and again if the server is lost.

        Raises:
            StateInputError: the server refuses the user, the password or the permission.
            FullError: it has no disk left.
            StateError: it stays away, or cannot do this.
        """
        with self._lock:
            return persist(lambda: self._once(work), self.location, self.retry, self._drop)

    def reach(self, work: Callable[[Connection], T]) -> T:
        """Run `work` as the first thing, once.

        Raises:
            StateError: the server cannot be reached now.
        """
        try:
            return self._once(work)
        except Lost as error:
            raise StateError(
                f"{self.location} cannot be reached ({error}): start the server, or check --backend"
            ) from None

    def close(self) -> None:
        """Let go of the connection."""
        self._drop()

    def __del__(self) -> None:
        if hasattr(self, "_link"):  # psycopg warns of what is left open
            self._drop()

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None and self._process == os.getpid():
            link.close()

    def _once(self, work: Callable[[Connection], T]) -> T:
        try:
            if self._link is None or self._process != os.getpid():
                self._link = self._connect()
                self._process = os.getpid()
            return work(self._link)
        except psycopg.Error as error:
            raise self._explained(error) from None

    def _connect(self) -> Connection:
        path = self.schema.replace("\\", "\\\\").replace('"', '""').replace(" ", "\\ ")
        given = psycopg.conninfo.conninfo_to_dict(self.conninfo)
        options = f'{given.get("options", "")} -c search_path="{path}"'.strip()
        return psycopg.connect(
            self.conninfo,
            autocommit=True,
            options=options,
            connect_timeout=given.get("connect_timeout", 5),
            application_name="vertexsdk",
            prepare_threshold=2,
        )

    def _explained(self, error: psycopg.Error) -> Exception:
        said = _first_line(error)
        kinds = psycopg.errors
        if isinstance(error, kinds.DiskFull | kinds.OutOfMemory):
            return FullError(
                f"{self.location} has no room left ({said}): free some space there; what was "
                "committed before is still readable"
            )
        if isinstance(error, kinds.InsufficientPrivilege):
            return StateInputError(
                f"{self.location} does not permit this to the user: {said}; grant what "
                "docs/backends.md lists under Rights"
            )
        if "authentication failed" in said or "no password supplied" in said:
            return StateInputError(
                f"{self.location} refuses the user name or password: check those in --backend"
            )
        if "does not exist" in said and "FATAL" in said:
            return StateInputError(f"{self.location}: {said.partition('FATAL:')[2].strip()}")
        if isinstance(error, kinds.ReadOnlySqlTransaction):
            return StateError(f"{self.location} is a read-only replica: name the primary")
        again = (kinds.SerializationFailure, kinds.DeadlockDetected, kinds.UniqueViolation)
        gone = self._link is None or self._link.closed or self._link.broken
        if isinstance(error, psycopg.OperationalError) and gone:
            return Lost(said)
        if isinstance(error, again):
            return Clash(said)
        return StateError(f"{self.location} cannot do this: {said}")


def _advice(given: dict[str, Any], location: str) -> str:
    """What to say of a password that may go to another host without TLS, or to anybody there."""
    host = str(given.get("hostaddr") or given.get("host") or os.environ.get("PGHOST", ""))
    secret = given.get("password") or os.environ.get("PGPASSWORD")
    local = all(part.startswith(("/", "@", "127.")) or part in _LOCAL for part in host.split(","))
    if local or not secret or "sslmode" in given or "PGSSLMODE" in os.environ:
        return ""
    return (
        f"{location}: a password goes there by sslmode=prefer, which takes any certificate or "
        "none: set sslmode=verify-full&sslrootcert=FILE in the URL, or the sslmode that you want"
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]
