"""Several threads of one process have stores of their own, and close none that others use."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from vertexsdk.arrays import shared_memory
from vertexsdk.backends.memory import MemoryBackend
from vertexsdk.state import version_writer
from vertexsdk.state.version_writer import store_of_run


def test_memory_stores_of_several_names(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = shared_memory.directory

    def slow(*args: Any) -> Any:
        time.sleep(0.05)
        return directory(*args)

    monkeypatch.setattr(shared_memory, "directory", slow)
    with ThreadPoolExecutor(4) as pool:
        names = [f"memory://thread-{k // 2}" for k in range(8)]
        locations = list(pool.map(lambda name: MemoryBackend.from_url(name).location, names))
    assert locations[::2] == locations[1::2]
    assert len({location.partition("?")[2] for location in locations}) == 4


class Recorded:
    """A store that knows whether it was closed."""

    def __init__(self, address: str) -> None:
        self.address, self.closed = address, False

    def close(self) -> None:
        self.closed = True


def test_a_store_in_use_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_writer, "_stores", {})
    monkeypatch.setattr(version_writer, "open_store", Recorded)
    with store_of_run("one", "a") as one:
        with store_of_run("other", "b") as other, store_of_run("one", "a") as again:
            assert again is one
        assert isinstance(one, Recorded)
        assert not one.closed
        with store_of_run("third", "c"):
            assert isinstance(other, Recorded)
            assert (one.closed, other.closed) == (False, True)
    with store_of_run("fourth", "d"):
        assert one.closed
