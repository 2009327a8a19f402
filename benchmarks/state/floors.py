"""What the same bytes cost without a store: a plain write and fsync, a SET, an INSERT.

A floor stands beside each measure of the suite `state`, taken in turn with it, so that a slow disk
or a busy machine is seen in the table.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Pieces = Sequence[memoryview | bytes]


class Floor(ABC):
    """One place to put bytes in, durably, as the store beside it does."""

    @abstractmethod
    def put(self, pieces: Pieces) -> None:
        """Put them under a name that is new."""

    def seconds(self, pieces: Pieces) -> float:
        """How long that takes."""
        began = time.perf_counter()
        self.put(pieces)
        return time.perf_counter() - began

    @abstractmethod
    def clear(self) -> None:
        """Remove what was put, and let go of the place."""


class _File(Floor):
    def __init__(self, directory: str, sync: bool) -> None:
        self._path, self._sync = Path(directory) / "floor", sync

    def put(self, pieces: Pieces) -> None:
        with self._path.open("wb", 0) as file:
            for piece in pieces:
                file.write(piece)
            if self._sync:
                os.fsync(file.fileno())

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)


class _Redis(Floor):
    def __init__(self, url: str) -> None:
        import redis

        self._client = redis.Redis.from_url(url.partition("?")[0])

    def put(self, pieces: Pieces) -> None:
        self._client.set("floor", b"".join(pieces))

    def clear(self) -> None:
        self._client.delete("floor")
        self._client.close()


class _Postgres(Floor):
    def __init__(self, url: str) -> None:
        import psycopg

        self._link: Any = psycopg.connect(url.partition("?")[0], autocommit=True)
        self._link.execute("CREATE TABLE IF NOT EXISTS floor (data bytea)")
        self._link.execute("ALTER TABLE floor ALTER data SET STORAGE EXTERNAL")

    def put(self, pieces: Pieces) -> None:
        self._link.execute("INSERT INTO floor VALUES (%b)", [b"".join(pieces)])

    def clear(self) -> None:
        self._link.execute("DROP TABLE floor")
        self._link.close()


def floor_of(url: str, directory: str) -> Floor:
    """The floor of the store at `url`, which is in `directory` if it is in one."""
    scheme = url.partition(":")[0]
    if scheme.startswith("redis"):
        return _Redis(url)
    if scheme.startswith("postgres"):
        return _Postgres(url)
    return _File(directory, sync=scheme != "memory")


# What a cold process runs: to read 8 bytes without a store.
COLD = {
    "redis": "client = redis.Redis.from_url(url.partition('?')[0]); found = client.ping()",
    "postgres": (
        "link = psycopg.connect(url.partition('?')[0]); "
        "found = link.execute('SELECT 1').fetchone(); link.close()"
    ),
    "lmdb": "found = os.pread(os.open(url.partition('://')[2] + '/FORMAT', os.O_RDONLY), 8, 0)",
    "memory": "found = True",
}
