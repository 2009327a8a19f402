"""The conformance suite of backends: a class of tests that a backend's own test file subclasses.

    class TestMine(BackendSuite):
        @pytest.fixture
        def url(self, tmp_path):
            return f"mine://{tmp_path}/store"

The invariants are those of `vertexsdk.state.contract`; each test says which it holds to. What the
backend does itself is in `contract_suite`; what the store above makes of it, through forks,
garbage, crashes and races, in `store_suite` and `crash_suite`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vertexsdk.state import Backend, Store, open_store
from vertexsdk.testing._contract_suite import HOSTILE_NAMES, ContractSuite
from vertexsdk.testing._crash_suite import CrashSuite
from vertexsdk.testing._store_suite import StoreSuite

__all__ = ["HOSTILE_NAMES", "BackendSuite"]


class BackendSuite(ContractSuite, StoreSuite, CrashSuite):
    """Subclass it, and give the fixture `url`: a store that is new for each test."""

    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError("give the fixture `url`")

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        store = open_store(url)
        yield store
        store.close()

    @pytest.fixture
    def backend(self, store: Store) -> Backend:
        return store.backend
