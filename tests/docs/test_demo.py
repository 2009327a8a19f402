"""The demo runs to its end and shows what it promises."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CPU_SECONDS = 60  # on two cores less than 40 seconds


def cpu_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


@pytest.mark.slow
def test_demo() -> None:
    before = cpu_seconds()
    done = subprocess.run(
        [sys.executable, "examples/demo.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sys rank=0.05" in done.stdout  # queried back
    assert "█" in done.stdout
    row = r"(\d+ changes|fork, change|resume), exact answer +[\d.]+ ms"
    assert len(re.findall(row, done.stdout)) == 11
    assert "Every answer equals a search from scratch" in done.stdout
    assert "Done in" in done.stdout
    assert cpu_seconds() - before < CPU_SECONDS
