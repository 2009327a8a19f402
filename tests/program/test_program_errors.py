"""Mistakes in a Vertex class are refused when it is defined, naming class, file and line."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from vertexsdk import Algebra, InputError, Min, Program, Sum, Vertex, param, state
from vertexsdk.algorithms import ShortestPaths
from vertexsdk.errors import ProgramError
from vertexsdk.loops.find_program import load_program

HEAD = "from vertexsdk import *\nfrom vertexsdk.program.vertex import producers\n\n\n"  # four lines
GATHER = "    def gather(self, iteration, source, delta):\n        self.x = delta.value\n"
SCATTER = "    def scatter(self, iteration):\n        self.emitAll(self.x)\n"
FIELDS = "    x: float = state(0.0)\n    messages = Sum(float)\n"
CLASS = "class A(Vertex):\n"

# What is written -> the line it is on (None: the class's own), what is said.
MISTAKES = {
    "an undeclared field is read": (
        CLASS + FIELDS + GATHER + SCATTER.replace("self.x", "self.y"),
        11, r"A: self\.y is not declared; add y: float = state\(\)",
    ),
    "an undeclared field is set": (
        CLASS + FIELDS + "    def init(self):\n        self.y = 1.0\n" + GATHER + SCATTER,
        9, r"A: self\.y is not declared",
    ),
    "a parameter is set": (
        CLASS + FIELDS + "    p: float = param(1.0)\n    def init(self):\n        self.p = 2.0\n"
        + GATHER + SCATTER, 10, r"A: parameter p is read-only; make it a state field",
    ),
    "an aggregator is set": (
        CLASS + FIELDS + "    a = aggregate(any)\n    def init(self):\n        self.a = 2.0\n"
        + GATHER + SCATTER, 10, r"a is an aggregator; use self\.a\.contribute\(x\)",
    ),
    "no gather": (CLASS + FIELDS + SCATTER, None, r"A: has no method gather\(\); write one"),
    "no scatter": (CLASS + FIELDS + GATHER, None, r"A: has no method scatter\(\); write one"),
    "no state": (
        CLASS + "    messages = Sum(float)\n    def gather(self, iteration, source, delta):\n"
        "        pass\n    def scatter(self, iteration):\n        self.emitAll(1.0)\n",
        None, r"A: declares no state",
    ),
    "gather takes too little": (
        CLASS + FIELDS + "    def gather(self, delta):\n        self.x = 1.0\n" + SCATTER,
        8, r"A\.gather takes \(self, iteration, source, delta\), this one has 2 arguments",
    ),
    "scatter takes too much": (
        CLASS + FIELDS + GATHER + "    def scatter(self, iteration, more):\n        pass\n",
        10, r"A\.scatter takes \(self, iteration\), this one has 3 arguments",
    ),
    "init takes something": (
        CLASS + FIELDS + "    def init(self, x):\n        pass\n" + GATHER + SCATTER,
        8, r"A\.init takes \(self\), this one has 2 arguments",
    ),
    "emit in gather": (
        CLASS + FIELDS + GATHER + "        self.emitAll(1.0)\n" + SCATTER,
        10, r"A: emitAll in gather; only scatter may send",
    ),
    "emit in what init calls": (
        CLASS + FIELDS + "    def init(self):\n        self.more()\n"
        "    def more(self):\n        self.emit(1, 1.0)\n" + GATHER + SCATTER,
        11, r"A: emit in init; only scatter may send",
    ),
}  # fmt: skip

# What a class declares, between its head and its methods.
DECLARATIONS = {
    "a default of another type": (
        "    x: float = state('none')\n    messages = Sum(float)\n",
        r"A: x is float, its default 'none' is not",
    ),
    "a fraction for an int": (
        "    x: int = state(0.5)\n    messages = Sum(int)\n",
        r"A: x is int, its default 0\.5 is not",
    ),
    "a number for a bool": (
        "    x: bool = state(1)\n    messages = Sum(float)\n",
        r"A: x is bool, its default 1 is not",
    ),
    "a number for a str": (
        "    x: str = state(1)\n    messages = Sum(float)\n",
        r"A: x is str, its default 1 is not",
    ),
    "a text called name": (
        FIELDS + "    name: str = state('')\n",
        r"A: a field called 'name' cannot be str",
    ),
    "an annotation only": (
        FIELDS + "    y: float\n",
        r"A: y: float is neither state\(\) nor param\(\)",
    ),
    "no type": (FIELDS + "    y = state()\n", r"A: field 'y' needs a type: y: float = state\(\)"),
    "a name of Vertex itself": (
        FIELDS + "    targets: int = state(0)\n",
        r"A: field 'targets' is a name of Vertex itself; rename it",
    ),
    "an empty vector": (
        "    x: float = state(0.0, size=0)\n    messages = Sum(float)\n",
        r"A: x: a vector needs size >= 1",
    ),
    "a vector of str": (
        "    x: str = state('', size=3)\n    messages = Sum(float)\n",
        r"A: x: a vector needs size >= 1 of int, float or bool",
    ),
    "messages of no algebra": (
        "    x: float = state(0.0)\n    messages = float\n",
        r"A: messages = <class 'float'>; give Sum\(float\)",
    ),
    "a direction that is none": (FIELDS + "    direction = 'up'\n", r"A: direction = 'up'; one of"),
    "a result that is no field": (
        FIELDS + "    result = 'rank'\n",
        r"A: result = 'rank' is not a state field",
    ),
}
MISTAKES |= {
    name: (CLASS + declared + GATHER + SCATTER, None, said)
    for name, (declared, said) in DECLARATIONS.items()
}


def load(text: str, directory: Path) -> ModuleType:
    path = directory / "mine.py"
    path.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location(f"mine_{abs(hash(text))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, tmp_path: Path) -> None:
    text, line, said = MISTAKES[name]
    with pytest.raises(ProgramError, match=said) as caught:
        load(text, tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_status == 2
    file, number, _ = message.split(":", 2)
    assert file == str(tmp_path / "mine.py")
    assert int(number) == (line or 5)


def test_what_is_right_is_taken(tmp_path: Path) -> None:
    module = load(CLASS + FIELDS + GATHER + SCATTER, tmp_path)
    assert Program(module.A).name == "a"
    load("class B(Vertex, abstract=True):\n    x: float = state(0.0)\n", tmp_path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Algebra(float, combine=lambda a, b: a - b, identity=0.0), "not associative"),
        (lambda: Algebra(float, combine=lambda a, b: (a + b) / 2, identity=0.0), "not associative"),
        (lambda: Algebra(int, combine=max, identity=0), "0 is not an identity of combine: try -1"),
        (
            lambda: Algebra(int, combine=lambda a, b: a + b + a * a * b * b, identity=0),
            "combine is not associative: ",
        ),
        (
            lambda: Algebra(int, combine=lambda a, b: a if b == 0 else b, identity=0),
            "combine is not commutative: ",
        ),
        (
            lambda: Algebra(int, combine=lambda a, b: a + b, identity=0, inverse=lambda a: a),
            "inverse(1) does not undo combine",
        ),
        (lambda: Sum(str), "Sum(str): takes int, float or VertexId"),
        (lambda: Min(float, size=0), "size must be a positive int, not 0"),
    ],
)
def test_algebras(make: object, said: str) -> None:
    with pytest.raises(ProgramError, match=re.escape(said)):
        make()  # type: ignore[operator]


def test_classes_of_one_program_agree(tmp_path: Path) -> None:
    one = CLASS + FIELDS + GATHER + SCATTER
    two = one.replace("class A", "class B").replace("0.0)\n", "0.0)\n    direction = 'in'\n", 1)
    module = load(one + two, tmp_path)
    with pytest.raises(ProgramError, match=r"mine\.py:\d+: B: direction differs from A's"):
        Program(module.A, module.B)
    with pytest.raises(ProgramError, match="at least one Vertex subclass"):
        Program()
    for wrong in (Vertex, int, "A"):
        with pytest.raises(ProgramError, match=r"is not a subclass of vertexsdk\.Vertex"):
            Program(wrong)  # type: ignore[arg-type]


class Weighted(Vertex):
    """A program with parameters of every type."""

    origin: int = param()
    factor: float = param(2.0)
    loud: bool = param(False)
    x: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.x = delta.value * self.factor + self.origin if self.loud else 0.0

    def scatter(self, iteration):
        self.emitAll(self.x)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "weighted: give a value for origin, e.g. origin="),
        ({"origin": 1, "orgin": 2}, "weighted: no parameter 'orgin'; it has: factor, loud, origin"),
        ({"origin": "one"}, "parameter origin takes int, not 'one'"),
        ({"origin": 1.5}, "parameter origin takes int, not 1.5"),
        ({"origin": 1, "factor": "x"}, "parameter factor takes float, not 'x'"),
        ({"origin": 1, "factor": None}, "parameter factor takes float, not None"),
        ({"origin": 1, "loud": "perhaps"}, "parameter loud takes bool, not 'perhaps'"),
    ],
)
def test_parameters(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        Program(Weighted).bind(given)


def test_parameters_from_the_command_line() -> None:
    bound = Program(Weighted).bind({"origin": "7", "factor": "0.5", "loud": "yes"})
    assert bound == {"origin": 7, "factor": 0.5, "loud": True}


@pytest.mark.parametrize("text", ["001", "+1", "-0", "--1", "\u00b2", "\u0663", "9" * 30])
def test_text_that_is_no_plain_integer_names_a_vertex_as_it_is(text: str) -> None:
    """A graph of strings has "001" and "1"; one of integers reads either as 1."""
    assert Program(ShortestPaths).bind({"origin": text}) == {"origin": text}


def test_programs_by_name() -> None:
    assert load_program("pagerank").name == "pagerank"
    assert load_program("vertexsdk.algorithms:PageRank").classes[0].name == "PageRank"


def test_a_vector_may_have_the_type_that_type_checkers_want() -> None:
    spec = Program(Typed).classes[0]
    assert [f.dtype.name for f in spec.states.values()] == ["int64", "float64"]


class Typed(Vertex):
    counts: NDArray[np.int64] = state(0, size=2)
    shares: NDArray[np.float64] = state(0.0, size=3)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.counts[0] += 1

    def scatter(self, iteration):
        self.emitAll(1.0)
