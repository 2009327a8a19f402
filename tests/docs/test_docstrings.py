"""Docstrings: their examples run, and every public name says what it takes, returns and raises.

An example that uses the name `spark` gets the tests' session; the others run without Spark.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import vertexsdk

ROOT = Path(__file__).parents[2]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = sorted(
    ".".join([room, *file.relative_to(ROOT / folder).with_suffix("").parts])
    for folder, room in {
        "vertexsdk": "vertexsdk",
        "backends": "vertexsdk.backends",
        "algorithms": "vertexsdk.algorithms",
    }.items()
    for file in (ROOT / folder).rglob("*.py")
    if ">>> " in file.read_text()
)
RETURNED = {
    "BranchLoop",
    "Graph",
    "Result",
    "Subscription",
}  # by other calls: users do not construct them

RUNS = "an example that runs"


def examples(module: str) -> list[doctest.DocTest]:
    """The docstrings of a module that have examples which are not all skipped."""
    tests = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))
    return [t for t in tests if any(doctest.SKIP not in e.options for e in t.examples)]


def uses_spark(test: doctest.DocTest) -> bool:
    return any(re.search(r"\bspark\b", example.source) for example in test.examples)


def run(tests: list[doctest.DocTest], **names: Any) -> None:
    runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
    output: list[str] = []
    for test in tests:
        test.globs.update(names)
        runner.run(test, out=output.append)
    assert runner.failures == 0, "".join(output)


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    run([test for test in examples(module) if not uses_spark(test)])


def test_examples_on_spark(spark: SparkSession) -> None:
    for module in MODULES:
        run([test for test in examples(module) if uses_spark(test)], spark=spark)


def raises(function: Any) -> bool:
    """Whether a function has a `raise` of an error of its own."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(tree))


def missing(name: str) -> set[str]:
    """What the docstring of a public name lacks, of what its signature and its body ask for."""
    value = getattr(vertexsdk, name)
    text = inspect.getdoc(value) or ""
    lacks = set()
    shown = doctest.DocTestParser().get_examples(text)
    if all(doctest.SKIP in example.options for example in shown):
        lacks.add(RUNS)
    function = value.__init__ if inspect.isclass(value) else value
    if name in RETURNED or not inspect.isfunction(function):
        return lacks
    sections = dict(re.findall(r"^(\w+):\n((?: .*\n?|\n)*)", text, re.M))
    described = re.findall(r"^ +([\w, *]+):", sections.get("Args", ""), re.M)
    if not {*inspect.signature(value).parameters} <= {*re.findall(r"\w+", " ".join(described))}:
        lacks.add("Args")
    if function is value and "Returns" not in sections:
        lacks.add("Returns")
    if "<string>" not in function.__code__.co_filename:  # a dataclass has no source of its own
        if raises(function) and "Raises" not in sections:
            lacks.add("Raises")
    return lacks


@pytest.mark.parametrize(
    "name", [name for name in vertexsdk.__all__ if callable(getattr(vertexsdk, name))]
)
def test_a_public_name_is_documented(name: str) -> None:
    assert (inspect.getdoc(getattr(vertexsdk, name)) or "").strip()
    assert missing(name) == set()
