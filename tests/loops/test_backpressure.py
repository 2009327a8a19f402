"""Loops whose container has little memory left: changes wait, then they are refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from vertexsdk import Graph, MainLoop, RunError
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.arrays import memory_limit
from vertexsdk.loops import history


class Container:
    """Control groups whose numbers a test chooses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.write(0)

    def write(self, percent: float, file: int = 0) -> None:
        """Use so many percent, beside files that can be dropped."""
        (self.folder / "memory.max").write_text("1000000\n")
        (self.folder / "memory.current").write_text(f"{int(10_000 * percent) + file}\n")
        (self.folder / "memory.stat").write_text(f"anon 5\ninactive_file {file}\nslab 3\n")


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Container:
    own = tmp_path / "cgroup"
    own.write_text("4:memory:/\n0::/pod/container\n")
    monkeypatch.setattr(memory_limit, "_OWN", own)
    monkeypatch.setattr(memory_limit, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory_limit, "_AGAIN", 0.0)
    monkeypatch.setattr(memory_limit, "_sample", (0.0, 0.0))
    monkeypatch.setattr(history, "_WAIT_SECONDS", 0.3)
    monkeypatch.setattr(history, "_LOOK_SECONDS", 0.01)
    return Container(tmp_path / "groups" / "pod" / "container")


def test_the_share_is_that_of_the_tightest_group_without_dropped_files(
    container: Container,
) -> None:
    container.write(40, file=500_000)
    assert memory_limit.used_memory() == pytest.approx(0.4)
    above = container.folder.parent
    for name, value in (("max", 2_000_000), ("current", 1_200_000), ("stat", "inactive_file 0")):
        (above / f"memory.{name}").write_text(f"{value}\n")
    assert memory_limit.used_memory() == pytest.approx(0.6)
    (container.folder / "memory.max").write_text("max\n")
    (above / "memory.max").write_text("max\n")
    assert memory_limit.used_memory() == 0


def test_changes_wait_and_are_refused(
    container: Container, caplog: pytest.LogCaptureFixture
) -> None:
    graph = Graph.from_arrays([1], [2])
    with MainLoop(ConnectedComponents, graph, backend="memory://full") as main:
        main.ingest([("+", 2, 3)])
        container.write(90)
        main.ingest([("+", 3, 4)])  # after whose command the loop knows
        with caplog.at_level(logging.WARNING, "vertexsdk"):
            main.ingest([("+", 4, 5)])
        assert "90 % of the memory limit is used; changes wait" in caplog.text
        container.write(97)
        with pytest.raises(RunError, match="cannot take in more changes: 97% of the memory limit"):
            main.ingest([("+", 5, 6)])
        with pytest.raises(RunError, match="cannot be forked: 97% of the memory limit"):
            main.fork()
        assert main.changes == 3
        container.write(50)
        main.ingest([("+", 5, 6)])
        assert main.query().to_dict() == dict.fromkeys(range(1, 7), 1)
