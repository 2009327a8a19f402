"""The README's wheel in the README's directory, where a checkout lies that is not installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.test_install import pip_install

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(280)]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^vertexsdk (?:run|query) .*$", README, re.M)


@pytest.fixture
def checkout(sources: Path, tmp_path: Path) -> Path:
    """The README's directory, with the package in it."""
    place = tmp_path / "checkout"
    shutil.copytree(sources, place)
    shutil.copytree(ROOT / "examples", place / "examples")
    return place


def test_commands_in_the_checkout(bare_python: Path, wheel: Path, checkout: Path) -> None:
    """Spark's workers import the wheel, as the command does; its second one reads the store."""
    pip_install(bare_python, str(wheel))
    paths = f"{bare_python.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": paths}
    environment.pop("PYSPARK_PYTHON", None)
    printed = ""
    for line in COMMANDS:
        command = line.replace("lmdb:///tmp/vertexsdk-state", f"lmdb://{checkout}/state")
        done = subprocess.run(
            command, shell=True, cwd=checkout, env=environment,
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert "sys steps=1.0" in printed
    assert "sys,1.0" in (checkout / "distance.csv").read_text()


def test_python_in_the_checkout(bare_python: Path, wheel: Path, checkout: Path) -> None:
    """Python looks into its working directory first, and says what lies there."""
    pip_install(bare_python, str(wheel))
    done = subprocess.run(
        [bare_python, "-c", "import vertexsdk"], cwd=checkout, capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {checkout}/vertexsdk is a checkout that hides the inst")
