"""Mistakes in a class that Python accepts are refused, or warned of, at their line."""

from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from vertexsdk import ProgramError
from vertexsdk.program.warn import ProgramWarning

numbers = itertools.count()

# What is put into a class, and the line of that class at which it is named: an option, init,
# gather, scatter; what is said.
REFUSED = {
    "max_iteration = 5": ("", r"no 'max_iteration'; did you mean 'max_iterations'\?"),
    "maxIterations = 5": ("", r"no 'maxIterations'; did you mean 'max_iterations'\?"),
    "message = Sum(float)": ("", r"no 'message'; did you mean 'messages'\?"),
    "def scater(self, iteration): pass": ("", r"no 'scater'; did you mean 'scatter'\?"),
    "def converge(self, i, a): return True": ("", r"no 'converge'; did you mean 'converged'\?"),
    "def __init__(self): self.x = 1.0": ("", r"__init__ is never called: set .* init\(self\)"),
    "always = 'no'": ("", r"always = 'no': it takes True or False"),
    "max_iterations = '5'": ("", r"max_iterations = '5': it takes an integer from 0, or None"),
    "max_iterations = 2.5": ("", r"max_iterations = 2\.5: it takes an integer"),
    "tolerance = -1.0": ("", r"tolerance = -1\.0: it takes a number from 0"),
    "def converged(self, iteration, a): a.x > 1": (
        "",
        r"converged returns nothing: return whether",
    ),
    "def init(self): return 1.0": ("", r"P\.init returns a value, which is not used"),
    "gather: return delta.value": ("gather", r"P\.gather returns a value, .* self\.NAME = "),
    "gather: return float(delta.value)": ("gather", r"P\.gather returns a value"),
    "gather: self.x = float(source)": ("gather", r"'source' is not a vertex, .* combined by Sum"),
    "gather: self.x = delta.values[0]": ("gather", r"combined by Sum\(float\): read delta\.value$"),
    "scatter: yield 1.0": ("scatter", r"P\.scatter has a yield .* never run: .*self\.emit"),
}
WARNED = {
    "limit = 5": ("", r"P: no method reads 'limit', and it is not an option of Vertex"),
    "gather: self.x = np.random.random()": (
        "gather",
        r"np\.random does not follow .* self\.random",
    ),
    "gather: self.x = random.random()": (
        "gather",
        r"random\.random does not follow from the run's",
    ),
    "gather: self.x = rng.random()": ("gather", r"rng\.random does not follow from the run's seed"),
    "gather: self.x = noise()": ("", r"P\.noise: random\.random does not follow"),
}
ALLOWED = (
    "LIMIT = 5",
    "limit = 5.0\n    def init(self): self.x = self.limit",
    "def helper(self): return 1.0",
    "gather: return",
    "gather: return None",
    "scatter: return self.emitAll(1.0)",
    "max_iterations = np.int64(5)",
    "gather: super().gather(iteration, source, delta)",
)


def define(tmp_path: Path, text: str) -> tuple[Any, dict[str, int]]:
    """Import a class with this text in it; return what does it, and the lines of its parts."""
    part, _, body = text.partition(": ")
    bodies = {"gather": "self.x = delta.value", "scatter": "self.emitAll(1.0)"}
    extra = "pass" if part in bodies else text
    bodies.update({part: body} if part in bodies else {})
    path = tmp_path / f"silent_{next(numbers)}.py"
    path.write_text(
        "import random\nimport numpy as np\nfrom vertexsdk import Sum, Vertex, state\n"
        "rng = np.random.default_rng(0)\n"
        "def noise(): return random.random()\n"
        f"class P(Vertex):\n    x: float = state(0.0)\n    messages = Sum(float)\n    {extra}\n"
        f"    def gather(self, iteration, source, delta):\n        {bodies['gather']}\n"
        f"    def scatter(self, iteration):\n        {bodies['scatter']}\n"
    )
    lines = {
        "gather": 11 + text.count("\n") * (extra == text),
        "scatter": 12 if "yield" in body else 13,
        "": 5 if "noise" in text else 9,
    }
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module, load = importlib.util.module_from_spec(spec), spec.loader.exec_module
    return (lambda: load(module)), lines


@pytest.mark.parametrize("text", REFUSED)
def test_refused(tmp_path: Path, text: str) -> None:
    load, lines = define(tmp_path, text)
    where, said = REFUSED[text]
    with pytest.raises(ProgramError) as refused:
        load()
    message = str(refused.value)
    assert re.search(rf"silent_\d+\.py:{lines[where]}: .*{said}", message), message
    assert "\n" not in message


@pytest.mark.parametrize("text", WARNED)
def test_warned_once(tmp_path: Path, text: str) -> None:
    load, lines = define(tmp_path, text)
    where, said = WARNED[text]
    with pytest.warns(ProgramWarning) as caught:
        load()
    (warning,) = caught
    assert re.search(said, str(warning.message)), warning.message
    assert re.search(r"silent_\d+\.py$", warning.filename)
    assert warning.lineno == lines[where]


@pytest.mark.parametrize("text", ALLOWED)
def test_allowed(tmp_path: Path, text: str) -> None:
    define(tmp_path, text)[0]()  # warnings are errors here


EVENTS = """\
from vertexsdk import Vertex, state
class P(Vertex):
    x: float = state(0.0)
    def gather(self, iteration, source, delta):
        {gather}
    def scatter(self, iteration):
        {scatter}
"""


@pytest.mark.parametrize(
    ("gather", "scatter", "refused"),
    [
        ("self.x = 1.0", "self.emitAll(1.0)", True),
        ("self.x = 1.0", "len(self.targets)", True),
        ("super().gather(iteration, source, delta)", "self.emitAll(1.0)", False),
        ("Vertex.gather(self, iteration, source, delta)", "self.emitAll(1.0)", False),
        ("self.addTarget(delta.value)", "self.emitAll(1.0)", False),
        ("self.x = 1.0", "self.emit(7, 1.0)", False),
        ("self.x = 1.0", "pass", False),
    ],
)
def test_events_without_targets(tmp_path: Path, gather: str, scatter: str, refused: bool) -> None:
    path = tmp_path / f"silent_{next(numbers)}.py"
    path.write_text(EVENTS.format(gather=gather, scatter=scatter))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if not refused:
        spec.loader.exec_module(module)
        return
    with pytest.raises(ProgramError, match=r":4: P\.gather takes no edges in.*super\(\)\.gather"):
        spec.loader.exec_module(module)
