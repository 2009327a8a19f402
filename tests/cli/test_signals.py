"""A command that a signal ends says so in one line, and what it has committed can be read."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import vertexsdk

pytestmark = pytest.mark.processes

PROGRAM = """
import time
from vertexsdk import Sum, Vertex, state

class Slow(Vertex):
    total: float = state(1.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        time.sleep(0.05)
        self.total = 0.5 * delta.value + iteration

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.total)
"""


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")]
)
def test_a_run_that_a_signal_ends(tmp_path: Path, number: int, said: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n3 1\n")
    store = f"lmdb://{tmp_path}/state"
    command = [
        sys.executable, "-m", "vertexsdk", "run", f"{tmp_path}/program.py:Slow", "--edges",
        f"{tmp_path}/edges.txt", "--max-iterations", "10000", "--commit-every", "1", "--compiled",
        "no", "--engine", "local", "--backend", store, "--loop", "slow",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def committed() -> bool:
        try:
            vertexsdk.read(store, "slow").close()
        except vertexsdk.VertexError:
            return False
        return True

    end = time.monotonic() + 60
    while not committed() and time.monotonic() < end:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    _, lines = process.communicate(timeout=60)
    assert process.returncode == 1
    assert lines == f"vertexsdk: {said}; versions committed before stay readable\n"
    assert committed()
