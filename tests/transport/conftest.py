"""A driver with slots for processors, in a process of its own, for several files of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.clusters import SLOT_SECONDS, Driver
from vertexsdk.transport import resident

SLOTS = 6


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have graphs of this process wait for slots where the machine is busy."""
    monkeypatch.setattr(resident, "SLOT_SECONDS", SLOT_SECONDS)


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    """A session with six slots, which runs a task that fails again."""
    with Driver(f"local[{SLOTS},4]") as started:
        yield started
