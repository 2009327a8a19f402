"""The processes in which tests have their own Spark sessions."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from tests.support import clusters
from tests.support.clusters import Driver
from vertexsdk.errors import RunError

pytestmark = pytest.mark.cluster


def stuck(spark: Any) -> None:
    time.sleep(600)


def process(spark: Any) -> int:
    return os.getpid()


def test_a_stuck_driver_is_killed_and_the_next_call_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Driver("local[1]") as driver:
        before = driver.run(process)
        monkeypatch.setattr(clusters, "CALL_SECONDS", 1.0)
        with pytest.raises(RunError, match="stuck for 1 s, and was killed"):
            driver.run(stuck)
        monkeypatch.undo()
        assert driver.run(process) != before
        assert not os.path.exists(f"/proc/{before}")
