"""The built-in algorithms by name, and what is written about each."""

from __future__ import annotations

import doctest
import inspect
import sys

import pytest

from vertexsdk import algorithms
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.testing.oracles import ORACLES

# Attributes of vertices are among what they depend on, or numbers that are drawn at random.
WITHOUT_ORACLE = {"colouring", "khop", "leiden", "louvain", "matching", "mis", "node2vec"}
WITHOUT_ORACLE |= {"ppr", "walks"}


def test_every_name_of_the_command_line_is_there_and_has_an_oracle() -> None:
    assert list(ALGORITHMS) == sorted(ALGORITHMS)
    assert {*ORACLES} == {*ALGORITHMS} - WITHOUT_ORACLE
    assert list(algorithms.__all__) == sorted(algorithms.__all__)
    assert {cls.__name__ for cls in ALGORITHMS.values()} == {*algorithms.__all__} - {"ALGORITHMS"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_says_what_it_is_and_shows_it(name: str) -> None:
    cls = ALGORITHMS[name]
    text = inspect.getdoc(cls) or ""
    for part in ("Converges to:", "Cost:", "Source:", "Example:"):
        assert part in text, part
    found = doctest.testmod(sys.modules[cls.__module__])
    assert found.attempted
    assert not found.failed
