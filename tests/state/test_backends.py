"""The backends that are built in pass the suite that is shipped, and the store's own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.store_tests import StoreTests
from vertexsdk.testing.backends import BackendSuite


class TestLmdb(BackendSuite, StoreTests):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"lmdb://{tmp_path}/store"


class TestSmallLmdb(BackendSuite, StoreTests):
    """Where address space is scarce, maps start small and grow."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"lmdb://{tmp_path}/store?map=65536"


class TestMemory(BackendSuite, StoreTests):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"memory://{tmp_path.name}"


class TestRedis(BackendSuite, StoreTests):
    @pytest.fixture
    def url(self, redis_url: str) -> str:
        return redis_url


class TestPostgres(BackendSuite, StoreTests):
    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url
