"""One Redis and one PostgreSQL server for all tests of the store that one process runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.servers import PostgresServer, RedisServer

_number = count()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """A store that is new."""
    return f"{redis_server.url()}?prefix=t{next(_number)}&retry=5"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """A store that is new."""
    return f"{postgres_server.url()}?schema=t{next(_number)}&retry=5"
