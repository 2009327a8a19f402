"""Methods that use string ids as numbers do not compile, and answer as Python does."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
import warnings
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tests.support.seeds import seed
from vertexsdk import Graph, run
from vertexsdk.compile._id_kinds import check_id_kinds
from vertexsdk.compile._rewrite import CannotCompile
from vertexsdk.errors import VertexError
from vertexsdk.program.program import spec_of

SOURCE = """
import numpy as np

from vertexsdk import INT_MAX, INT_MIN, Algebra, Latest, Max, Min, Sum, Vertex, VertexId
from vertexsdk import aggregate, param, state

def double(q):
    return q * 2


def least(ids):
    best = ids[0]
    for x in ids:
        best = min(best, x)
    return best


class {name}(Vertex):
    v: VertexId = state()
    w: VertexId = state()
    x: int = state(0)
    flag: bool = state(False)
{fields}
    origin: VertexId = param("b")
    messages = {messages}
    low = aggregate(Min(VertexId))
    high = aggregate(Max(VertexId))
    count = aggregate(Sum(int))
    max_iterations = 2

    def times(self, q):
        return q * 2

    def smaller(self, a, b):
        return a if a < b else b

{parts}

    def init(self):
        self.v = self.id
        self.w = self.origin
{init}

    def gather(self, iteration, source, delta):
{gather}

    def scatter(self, iteration):
{scatter}
"""
AS_NUMBER, AS_ID = "an id is used as a number", "a number is used as an id"
HASHED = "hash() of a string is another number in each process"
MIXED = "y is an id here and a number there"


def load(path: Path, name: str, **methods: str) -> Any:
    """Define a class with these methods in a file of its own."""
    text = {"messages": "Min(VertexId)", "fields": "", "parts": ""} | methods
    text |= {m: indent(methods.get(m, "pass"), " " * 8) for m in ("init", "gather", "scatter")}
    file = path / f"{name}.py"
    file.write_text(SOURCE.format(name=name, **text))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def answer(program: Any, compiled: Any) -> Any:
    """The rows of a run, or the text of its error."""
    graph = Graph.from_arrays(["a", "b", "c", "a"], ["b", "c", "a", "c"], partitions=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with run(program, graph, backend="memory://kinds", compiled=compiled) as result:
                return sorted(result.rows())
        except VertexError as error:
            return f"{type(error).__name__}: {error}"


NOT_IDS = {
    "modulo": ("init", "self.x = self.id % 2", AS_NUMBER),
    "increment": ("init", "self.v += 1", AS_NUMBER),
    "local": ("init", "y = self.v\nself.x = y * 2", AS_NUMBER),
    "minus": ("init", "self.x = -self.id", AS_NUMBER),
    "conversion": ("init", "self.x = int(self.id)", AS_NUMBER),
    "int_field": ("init", "self.x = self.id", AS_NUMBER),
    "number_as_id": ("init", "self.v = 7", AS_ID),
    "greater": ("init", "self.x = 1 if self.id > 3 else 0", AS_NUMBER),
    "equal": ("init", "self.x = 1 if self.id == 3 else 0", AS_NUMBER),
    "equal_string": ("init", "self.x = 1 if self.id == 'a' else 0", AS_NUMBER),
    "truth": ("init", "self.x = 1 if self.id else 0", AS_NUMBER),
    "negation": ("init", "self.flag = not self.v", AS_NUMBER),
    "or_": ("init", "self.flag = self.x > 1 or bool(self.id)", AS_NUMBER),
    "least": ("init", "self.x = min(self.id, 5)", AS_NUMBER),
    "absolute": ("init", "self.x = abs(self.id)", AS_NUMBER),
    "helper": ("init", "self.x = self.times(self.id)", AS_NUMBER),
    "helper_returns": ("init", "self.x = self.smaller(self.id, self.origin)", AS_NUMBER),
    "function": ("init", "self.x = double(self.id)", AS_NUMBER),
    "choice": ("init", "self.v = self.id if self.x == 0 else 5", AS_NUMBER),
    "mixed": ("init", "y = 0\nif self.flag:\n    y = self.id\nself.flag = y == self.id", MIXED),
    "index": ("init", "y = [5, 6, 7]\nself.x = y[self.id]", AS_NUMBER),
    "parameter": ("init", "self.x = self.origin + 1", AS_NUMBER),
    "list_of_both": ("init", "y = [self.id, 4]\nself.x = len(y)", AS_NUMBER),
    "key_function": ("init", "self.v = max([self.id, self.w], key=double)", AS_NUMBER),
    "is_": ("init", "self.flag = self.id is self.v", AS_NUMBER),
    "hashed": ("init", "self.x = hash(self.id) % 8", HASHED),
    "hashed_pair": ("init", "self.x = hash((self.x, self.w)) % 8", HASHED),
    "target": ("init", "for t in self.targets:\n    self.x += t.id", AS_NUMBER),
    "message": ("scatter", "self.emitAll(7)", AS_ID),
    "message_by_id": ("scatter", "self.emit(self.origin, 7)", AS_ID),
    "to_number": ("scatter", "self.emit(1, self.id)", AS_ID),
    "number_from_message": ("gather", "self.x = delta.value", AS_NUMBER),
    "compared_message": ("gather", "self.flag = delta.value < 2", AS_NUMBER),
    "contribution": ("gather", "self.low.contribute(3)", AS_ID),
    "counted_id": ("gather", "self.count.contribute(self.id)", AS_NUMBER),
    "aggregate": ("gather", "self.x = self.low.value - 1", AS_NUMBER),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_IDS)
def test_what_uses_ids_as_numbers_is_interpreted(name: str, tmp_path: Path) -> None:
    method, text, reason = NOT_IDS[name]
    bodies = {"scatter": "self.emitAll(self.id)"} | {method: text}
    program = load(tmp_path, f"NotIds_{name}", **bodies)
    required = answer(program, "require")
    assert f"ids are strings and {reason}; compiled=" in required
    assert f"NotIds_{name}.py:" in required
    assert answer(program, True) == answer(program, False)


def test_numbers_in_place_of_ids_raise_in_one_line(tmp_path: Path) -> None:
    cases = {
        "Field": ("init", "self.v = 7", "field v is VertexId, it was set to 7"),
        "Message": ("scatter", "self.emitAll(7)", "messages are Min(VertexId), scatter sent 7"),
        "ById": ("scatter", "self.emit(self.origin, 7)", "7 is not a vertex"),
        "To": ("scatter", "self.emit(7, self.id)", "7 is not a vertex"),
    }
    for name, (method, text, message) in cases.items():
        program = load(tmp_path, f"NumberIn{name}", **{method: text})
        said = answer(program, False)
        assert message in said
        assert "the graph's ids are strings" in said


def test_vectors_of_ids_need_integers(tmp_path: Path) -> None:
    program = load(tmp_path, "IdVector", messages="Min(VertexId, size=2)")
    assert "give it a graph whose ids are integers" in answer(program, True)


@pytest.mark.parametrize("compiled", ["require", True, False])
def test_ids_that_are_combined_as_numbers_need_integers(compiled: Any, tmp_path: Path) -> None:
    """A sum of strings is no string, and an algebra of one's own sees numbers in place of them."""
    last = "Algebra(VertexId, combine=lambda a, b: a if a > b else b, identity=INT_MIN)"
    for name, messages in (("IdSum", "Sum(VertexId)"), ("LastId", last)):
        said = answer(load(tmp_path, name, messages=messages), compiled)
        assert "combines ids as numbers" in said
        assert f"{name}.py:" in said


ONLY_IDS = [
    "self.v = ~self.id",
    "self.v = ~self.v\nself.v = ~self.v",
    "self.flag = ~self.id < ~self.w",
    "self.flag = ~self.id < self.w and self.id > ~self.w",
    "self.v = min(self.id, self.w)",
    "self.v = max(self.id, self.w, self.origin)",
    "self.flag = self.id < INT_MAX and INT_MIN < self.id and self.id <= INT_MAX",
    "self.flag = self.id > INT_MAX or self.id == INT_MIN or INT_MAX <= self.id",
    "y = INT_MAX\nfor t in self.targets:\n    y = min(y, t.id)\nself.v = y",
    "y = INT_MAX\nfor t in self.targets:\n    if t.id < y:\n        y = t.id\nself.v = y",
    "self.v = self.smaller(self.id, self.origin)",
    "self.v = self.smaller(self.id, self.w)\nself.x = self.smaller(4, 2)",
    "y = [self.id, self.w]\nself.v = least(y)\nself.x = len(y)",
    "y = [self.origin]\nfor t in self.targets:\n    y.append(t.id)\ny.sort()\nself.v = y[0]",
    "y = self.id\nself.v = y",
    "a, b = self.id, self.w\na, b = b, a\nself.v = a",
    "y = {self.id: 3}\ny[self.w] = 4\nself.x = y[self.id] + len(y)",
    "y = set([self.id])\ny.add(self.w)\nself.flag = self.origin in y\nself.x = len(y)",
    "self.flag = (self.x, self.id) < (self.x, self.w)",
    "self.v = self.w if self.w < self.id else self.id",
    "for t in self.targets:\n    self.x += t.id < self.id\nfor t in range(3):\n    self.x += t",
]


def only_ids(path: Path, name: str, text: str) -> bool:
    """Return whether an `init` uses ids only as ids."""
    try:
        check_id_kinds(spec_of(load(path, name, init=text)), ["init"])
    except CannotCompile:
        return False
    return True


def check_together(path: Path, name: str, texts: list[str]) -> None:
    """Check that texts, each on fields of its own, answer compiled as interpreted."""
    fields, parts = [], []
    for k, text in enumerate(texts):
        fields += [f"    v{k}: VertexId = state()", f"    x{k}: int = state()"]
        fields.append(f"    flag{k}: bool = state()")
        numbered = re.sub(r"self\.(v|x|flag)\b", rf"self.\g<1>{k}", text)
        start = f"self.v{k} = self.id\n"
        parts.append(f"    def part{k}(self):\n{indent(start + numbered, ' ' * 8)}\n")
    init = "\n".join(f"self.part{k}()" for k in range(len(texts)))
    program = load(path, name, init=init, fields="\n".join(fields), parts="\n".join(parts))
    interpreted = answer(program, False)
    assert isinstance(interpreted, list), interpreted
    assert answer(program, "require") == interpreted


def test_what_uses_ids_as_ids_compiles(tmp_path: Path) -> None:
    assert [t for k, t in enumerate(ONLY_IDS) if not only_ids(tmp_path, f"Ids{k}", t)] == []
    check_together(tmp_path, "OnlyIds", ONLY_IDS)


class Drawn:
    """Draws statements whose expressions mix ids and numbers, mostly rightly."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def expression(self, kind: str, depth: int) -> str:
        """An expression of a kind, or now and then of another."""
        if self.rng.random() < 0.04:
            kind = {"id": "int", "int": "id"}.get(kind, kind)
        leaves = {
            "id": ["self.id", "self.w", "self.origin", "self.v", "y", "least(names)", "names[0]"],
            "int": ["self.x", "3", "len(names)", "len(self.targets)", "counts[self.id]"],
            "bool": ["self.flag", "True", "self.id in names"],
        }
        if depth == 0:
            return self.rng.choice(leaves[kind])
        a, b, c = (self.expression(kind, depth - 1) for _ in range(3))
        truth = self.expression("bool", depth - 1)
        both = [self.expression(self.rng.choice(["id", "int"]), depth - 1)] * 2
        both[1] = self.expression(self.rng.choice(["id", "int"]), depth - 1)
        one, two = (self.expression("id", depth - 1) for _ in range(2))
        sign = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        forms = {
            "id": [f"min({a}, {b})", f"max({a}, {b}, {c})", f"({a} if {truth} else {b})", f"~{a}",
                   f"self.smaller({a}, {b})", f"sorted([{a}, {b}])[1]", f"min({a}, INT_MAX)",
                   f"({a}, {b})[0]", f"max(INT_MIN, {a})"],
            "int": [f"({a} + {b})", f"min({a}, {b})", f"self.times({a})",
                    f"({a} if {truth} else 1)", f"[{one}, {two}].count({one})"],
            "bool": [f"{one} {sign} {two}", f"{both[0]} {sign} {both[1]}", f"(not {a})",
                     f"({one}, {two}) {sign} ({two}, {one})", f"{one} {sign} INT_MAX",
                     f"({a} and {b})", f"{one} in names", f"INT_MIN {sign} {one}"],
        }  # fmt: skip
        return self.rng.choice(forms[kind])

    def statements(self) -> str:
        """A few statements."""
        lines = ["y = self.w", "names = [self.w]", "counts = {self.id: 2}"]
        for _ in range(self.rng.randint(1, 3)):
            to, kind = self.rng.choice(
                [("self.v", "id"), ("y", "id"), ("self.x", "int"), ("self.flag", "bool")]
            )
            lines.append(f"{to} = {self.expression(kind, self.rng.randint(0, 2))}")
            if self.rng.random() < 0.3:
                lines.append(f"names.append({self.expression('id', 0)})")
            if self.rng.random() < 0.3:
                item = self.rng.choice(["t.id", "min(t.id, y)", "t.value"])
                lines.append(f"for t in self.targets:\n    names.append({item})")
        return "\n".join([*lines, "self.x += len(names)", "self.v = min(self.v, y)"])


def test_drawn_statements_answer_compiled_as_interpreted(tmp_path: Path) -> None:
    drawn = Drawn(random.Random(seed()))
    texts = [drawn.statements() for _ in range(40)]
    right = [t for k, t in enumerate(texts) if only_ids(tmp_path, f"Drawn{k}", t)]
    assert 8 <= len(right) < len(texts)
    check_together(tmp_path, "DrawnIds", right[:3])
