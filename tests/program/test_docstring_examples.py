"""The examples in docstrings of programs and their compilation do what they say."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
from importlib import import_module

import pytest

import vertexsdk.compile
import vertexsdk.program
import vertexsdk.program.analysis
from vertexsdk.program import algebra, vertex
from vertexsdk.program.program import Program

ROOMS = (vertexsdk.program, vertexsdk.program.analysis, vertexsdk.compile)
MODULES = [
    f"{room.__name__}.{module.name}"
    for room in ROOMS
    for module in pkgutil.iter_modules(room.__path__)
]
PUBLIC = [
    *(getattr(vertex, n) for n in ("Vertex", "aggregate", "param", "producers", "state")),
    *(getattr(vertex, n) for n in ("Aggregates", "Aggregator", "Delta", "Target")),
    *(getattr(algebra, n) for n in ("Algebra", "Latest", "Max", "Min", "Sum", "VertexId")),
    Program,
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name: str) -> None:
    results = doctest.testmod(import_module(name))
    assert not results.failed


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.__name__)
def test_what_a_user_writes_with_has_an_example(public: object) -> None:
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(public) or "")
    assert examples
    assert not any(doctest.SKIP in example.options for example in examples)
