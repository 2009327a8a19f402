"""constraints.txt pins every requirement that ./dev installs, by version alone."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "constraints.txt").read_text().splitlines()
PINS = [line for line in LINES if line and not line.startswith("#")]


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[=<>~! ]", requirement)[0]).lower()


def test_pins_are_exact_versions_and_no_addresses() -> None:
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in PINS)


def test_every_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for extra in project["optional-dependencies"].values() for name in extra]
    wanted = {canonical(name) for name in (*project["dependencies"], *extras)}
    assert wanted <= {canonical(line) for line in PINS}
