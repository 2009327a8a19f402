"""The command line as a function: called in this process, on the tests' one Spark session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vertexsdk.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Done:
    """How a command ended: exit status, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What was printed on standard error, line by line."""
        return self.err.splitlines()


Call = Callable[..., Done]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty store, which commands use by default; files are named from tmp_path."""
    url = f"lmdb://{tmp_path / 'state'}"
    monkeypatch.setenv("VERTEXSDK_BACKEND", url)
    monkeypatch.chdir(tmp_path)
    return url


@pytest.fixture
def vertexsdk(state: str, spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> Call:
    """`vertexsdk("run", "wcc", ...)` as from a shell, in a directory of its own."""

    def call(*arguments: str | Path) -> Done:
        capfd.readouterr()
        status = main([str(a) for a in arguments])
        return Done(status, *capfd.readouterr())

    return call


@pytest.fixture
def edges(state: str) -> str:
    """A triangle and an edge, both directed."""
    Path("edges.txt").write_text("1 2\n2 3\n3 1\n4 5\n")
    return "edges.txt"
