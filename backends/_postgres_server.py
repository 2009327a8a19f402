"""The connection to a PostgreSQL server: its URL, and its errors in plain words."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from vertexsdk.backends._server import (
    READABLE,
    REFUSED,
    Conflict,
    ConnectionLost,
    Server,
    retry_seconds,
)
from vertexsdk.errors import first_line
from vertexsdk.state.address import redacted
from vertexsdk.state.errors import FullError, StateError, StateInputError

try:
    import psycopg
except ImportError as error:
    raise StateInputError(
        "postgresql:// needs a package: pip install 'vertexsdk[postgres]'"
    ) from error

T = TypeVar("T")
_LONGEST = 63  # bytes of a name
_LOCAL = {"", "localhost", "::1"}
_ADVICE = "write postgresql://[user[:password]@]host[:port]/database[?sslmode=verify-full&...]"


class PostgresServer(Server):
    """One schema of a database; one thread at a time uses its connection.

    Args:
        url: `postgresql://[user[:password]@]host[:port]/database`.

    Attributes:
        schema: the name of the schema.
        advice: a setting to change, as of `Backend`.

    Raises:
        StateInputError: the URL is wrong; the message has no password.
    """

    errors = psycopg.Error

    def __init__(self, url: str) -> None:
        shown = redacted(url)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
            options = parse_qs(parts.query, strict_parsing=bool(parts.query))
            retry = retry_seconds(options, shown)
            self.schema = options.pop("schema", ["public"])[0]
            rest = urlencode(options, doseq=True, quote_via=quote)
            self._conninfo = f"postgresql://{parts.netloc}{parts.path}?{rest}"
            settings = psycopg.conninfo.conninfo_to_dict(self._conninfo)
            if "@" in parts.path:  # what stands before it may be the rest of a password
                raise ValueError
        except StateInputError:
            raise
        except (ValueError, psycopg.Error):
            raise StateInputError(
                f"{shown.partition('?')[0]} is not a URL of PostgreSQL: {_ADVICE}"
            ) from None
        database = str(settings.get("dbname", ""))
        for what, name in (("schema", self.schema), ("database", database)):
            if len(name.encode()) > _LONGEST or "\0" in name:
                raise StateInputError(
                    f"{what} {name[:40]!r}...: PostgreSQL cuts names above {_LONGEST} bytes, "
                    "so two could be one: choose a shorter name"
                )
        place = f"{host}:{port}" if port else host
        location = f"postgresql://{place}{parts.path}"
        location += f"?schema={self.schema}" if self.schema != "public" else ""
        super().__init__(url, location, retry)
        self.advice = _advice(settings, location)
        self._lock = threading.RLock()

    def run(self, work: Callable[[Any], T]) -> T:
        with self._lock:
            return super().run(work)

    def __del__(self) -> None:
        if hasattr(self, "_connection"):  # psycopg warns of what is left open
            self.close()

    def _drop_lost(self) -> None:
        self.close()

    def _connect(self) -> Any:
        path = self.schema.replace("\\", "\\\\").replace('"', '""').replace(" ", "\\ ")
        settings = psycopg.conninfo.conninfo_to_dict(self._conninfo)
        options = f'{settings.get("options", "")} -c search_path="{path}"'.strip()
        return psycopg.connect(
            self._conninfo,
            autocommit=True,
            options=options,
            connect_timeout=settings.get("connect_timeout", 5),
            application_name="vertexsdk",
            prepare_threshold=2,
        )

    def _explained(self, error: psycopg.Error) -> tuple[type[Exception], str]:
        message = first_line(error)
        kinds = psycopg.errors
        if isinstance(error, kinds.DiskFull | kinds.OutOfMemory):
            return FullError, f"has no room left ({message}): free some space there; {READABLE}"
        if isinstance(error, kinds.InsufficientPrivilege):
            grant = "grant what docs/backends.md lists under Rights"
            return StateInputError, f"does not permit this to the user: {message}; {grant}"
        if "authentication failed" in message or "no password supplied" in message:
            return StateInputError, REFUSED
        if "does not exist" in message and "FATAL" in message:
            return StateInputError, f"says: {message.partition('FATAL:')[2].strip()}"
        if isinstance(error, kinds.ReadOnlySqlTransaction):
            return StateError, "is a read-only replica: name the primary"
        again = (kinds.SerializationFailure, kinds.DeadlockDetected, kinds.UniqueViolation)
        link = self._connection
        if isinstance(error, psycopg.OperationalError) and (link is None or link.closed):
            return ConnectionLost, message
        if isinstance(error, again):
            return Conflict, message
        return StateError, f"cannot do this: {message}"


def _advice(settings: dict[str, Any], location: str) -> str:
    """The advice where a password may go to another host without TLS, or to any server there."""
    host = str(settings.get("hostaddr") or settings.get("host") or os.environ.get("PGHOST", ""))
    secret = settings.get("password") or os.environ.get("PGPASSWORD")
    local = all(part.startswith(("/", "@", "127.")) or part in _LOCAL for part in host.split(","))
    if local or not secret or "sslmode" in settings or "PGSSLMODE" in os.environ:
        return ""
    return (
        f"{location}: a password goes there by sslmode=prefer, which takes any certificate or "
        "none: set sslmode=verify-full&sslrootcert=FILE in the URL, or the sslmode that you want"
    )
