"""The demo runs to its end and shows what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_demo() -> None:
    done = subprocess.run(
        [sys.executable, "examples/demo.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sys rank=0.05" in done.stdout  # queried back
    assert "sys steps=1.0" in done.stdout
    assert "█" in done.stdout
    assert "Done in" in done.stdout
