"""The examples in docstrings of loops/ and cli/ that run without Spark."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

from vertexsdk import cli, loops

MODULES = [
    module.name
    for package in (loops, cli)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
WITH_EXAMPLES = {"_change_log", "_main", "output", "read_ahead", "result"}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    outcome = doctest.testmod(import_module(name))
    assert outcome.failed == 0
    assert outcome.attempted or name.rpartition(".")[2] not in WITH_EXAMPLES
