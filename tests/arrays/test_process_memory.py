"""The peak memory of a process is its own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

CHILD = "from vertexsdk.engine.loop_task import peak_memory; print(peak_memory())"


@pytest.mark.full
def test_the_memory_of_the_process_that_started_it_does_not_count() -> None:
    ours = np.ones(1 << 26)  # 512 MiB
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert 1 << 20 < int(child.stdout) < ours.nbytes
