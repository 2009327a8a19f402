"""The conformance suite for backends: a class of tests that a backend's test file subclasses.

The tests hold a backend to the guarantees of `vertexsdk.state.contract`: first its own methods,
then the store on top of it, in random histories, crashes and races.

Example:
    >>> class TestMine(BackendSuite):
    ...     @pytest.fixture
    ...     def url(self, tmp_path):
    ...         return f"lmdb://{tmp_path}/store"  # here mine://...
    >>> len([name for name in dir(TestMine) if name.startswith("test_")]) > 15
    True
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vertexsdk.state import Backend, Store, open_store
from vertexsdk.testing._contract_suite import ContractSuite
from vertexsdk.testing._store_suite import StoreSuite


class BackendSuite(ContractSuite, StoreSuite):
    """Subclass it and define the fixture `url`, the URL of a new, empty store for each test.

    The class attributes `kills` and `examples` set how many random crashes and histories are tried.
    """

    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError("define the fixture `url` in the subclass of BackendSuite")

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        store = open_store(url)
        yield store
        store.close()

    @pytest.fixture
    def backend(self, store: Store) -> Backend:
        return store.backend
