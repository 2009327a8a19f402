"""pyproject.toml lists the packages one by one; here is what notices a forgotten one."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_package_is_listed() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    directories = setuptools["package-dir"]
    there = set()
    for name, directory in directories.items():
        for init in (ROOT / directory).rglob("__init__.py"):
            inner = init.parent.relative_to(ROOT / directory).parts
            there.add(".".join((name, *inner)))
    assert set(setuptools["packages"]) == there


def test_constraints_are_exact_versions_and_no_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(line.count("==") == 1 and "://" not in line for line in pins)
