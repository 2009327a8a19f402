"""A kernel of Jupyter, in which tests execute cells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

ROOT = Path(__file__).parents[2]


class Kernel:
    """A kernel that executes one cell after the other."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str) -> list[dict[str, Any]]:
        """Execute a cell; return the contents of its outputs, each with its `kind`."""
        outputs: list[dict[str, Any]] = []

        def add(message: dict[str, Any]) -> None:
            if message["msg_type"] not in ("status", "execute_input"):
                outputs.append({"kind": message["msg_type"], **message["content"]})

        self._client.execute_interactive(code, timeout=120, output_hook=add)
        return outputs

    def html(self, code: str) -> str:
        """Execute a cell; return what its last expression looks like."""
        outputs = self.run(code)
        shown = [o["data"]["text/html"] for o in outputs if o["kind"] == "execute_result"]
        assert shown, outputs
        return str(shown[0])

    def text(self, code: str) -> str:
        """Execute a cell; return what it printed, without warnings and the like."""
        outputs = self.run(code)
        assert all(o["kind"] != "error" for o in outputs), outputs
        printed = [o for o in outputs if o["kind"] == "stream" and o["name"] == "stdout"]
        return "".join(o["text"] for o in printed)

    def error(self, code: str) -> list[str]:
        """Execute a cell that fails; return the lines that are shown."""
        return [line for o in self.run(code) if o["kind"] == "error" for line in o["traceback"]]


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """A kernel that has imported vertexsdk."""
    manager, client = start_new_kernel(
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=str(ROOT / "examples")
    )
    try:
        running = Kernel(client)
        running.text("import vertexsdk\nfrom vertexsdk import *\nstate = vertexsdk.state")
        yield running
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
