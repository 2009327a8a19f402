"""What Spark's Python workers import: what this process does, not what lies around."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vertexsdk.transport import shipping
from vertexsdk.transport.shipping import prepare_workers


@dataclass
class Context:
    """What is asked of a Spark context, and set."""

    master: str = "local[2]"
    applicationId: str = "none"
    pythonExec: str = "python3"
    environment: dict[str, str] = field(default_factory=dict)

    def getConf(self) -> dict[str, str]:
        return {}


def prepared(**given: Any) -> Context:
    context = Context(**given)
    prepare_workers(context)  # type: ignore[arg-type]
    return context


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that this process looks into, as one that was started with `-c`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return tmp_path


def test_workers_look_where_this_process_looks(here: Path) -> None:
    assert prepared().environment == {}
    sys.path[0] = str(here)
    assert prepared().environment == {}
    sys.path[0] = str(here / "bin")  # as of an installed command
    assert prepared().environment == {"PYTHONSAFEPATH": "1"}


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,2,1024]"])
def test_a_checkout_in_the_working_directory_does_not_hide_the_package(
    here: Path, master: str
) -> None:
    (here / "vertexsdk").mkdir()
    assert prepared(master=master).environment == {"PYTHONSAFEPATH": "1"}


def test_the_checkout_that_is_imported_is_looked_into(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "vertexsdk").symlink_to(shipping._PACKAGE)
    assert prepared().environment == {}


def test_workers_run_this_python(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepared().pythonExec == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "another")
    assert prepared().pythonExec == "python3"  # as PySpark has read it, perhaps of another time


def test_workers_of_other_machines_are_as_they_are(here: Path) -> None:
    (here / "vertexsdk").mkdir()
    for master in ("yarn", "spark://host:7077", "k8s://https://host:1"):
        assert prepared(master=master) == Context(master)


def test_what_the_user_sets_stays(here: Path) -> None:
    sys.path[0] = str(here / "bin")
    assert prepared(environment={"PYTHONSAFEPATH": ""}).environment == {"PYTHONSAFEPATH": ""}


def test_a_working_directory_that_was_deleted(here: Path) -> None:
    (here / "gone").mkdir()
    os.chdir(here / "gone")
    (here / "gone").rmdir()
    assert prepared().pythonExec == sys.executable
