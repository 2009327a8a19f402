"""CONTRIBUTING.md, the help of `./dev` and `.ci/run` name the same commands."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEV = (ROOT / "dev").read_text()


def named(text: str, start: str) -> set[str]:
    return set(re.findall(rf"^{start}\./dev (\w+)", text, re.M))


def test_every_command_of_dev_is_described() -> None:
    table = DEV.partition("\n    commands = {\n")[2].partition("\n    }\n")[0]
    commands = set(re.findall(r'^        "(\w+)": ', table, re.M))
    assert {"test", "check", "bench"} < commands
    assert named(DEV, "    ") == commands
    assert named((ROOT / "CONTRIBUTING.md").read_text(), r"\| `") == commands


def test_the_commands_of_continuous_integration_are_described() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().split("Continuous integration runs")[1]
    described = re.findall(r"`(\./dev [^`]+)`", section.split("\n## ")[0])
    run = re.findall(r"^part .* (\./dev \w+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    assert described == run
