"""The servers of the tests of the store."""

from __future__ import annotations

from tests.state.conftest import (  # noqa: F401
    postgres_server,
    postgres_url,
    redis_server,
    redis_url,
)
