"""Random Vertex programs as source files, to test that all ways of running a program agree.

There are two kinds, because an engine may gather more often than it must. A *pure* program's
gather does not depend on the state or the iteration, so an extra call does no harm. An *always*
program gathers everywhere in every iteration, so it may keep counts, read `iteration`, use
aggregators, change the graph, and write to its state in scatter.
"""

from __future__ import annotations

import importlib.util
import random
from dataclasses import dataclass
from pathlib import Path

from tests.support.methods import ClassText, Shared
from vertexsdk.program.program import Program

__all__ = ["RandomProgram", "random_program"]

PRELUDE = """
import math

import numpy as np

from vertexsdk import (
    INT_MAX, INT_MIN, Algebra, Latest, Max, Min, Sum, Vertex, VertexId, aggregate, inf, param, state
)

STEP = 3
TABLE = (1, 4, 2, 8)


def twist(a, b):
    total = 0
    for k in range(STEP):
        if (a + k) % 2 == 0:
            total += (a * k) % 7
        else:
            total -= b % 5
    return total + TABLE[a % 4]


def either(a, b):
    return a | b


def add(a, b):
    return (a + b) % 97


def minus(a):
    return -a % 97
"""

# Name, element type, length (0: a scalar), constructor.
SCALARS = [
    ("sum", "int", "Sum(int)"),
    ("sum", "float", "Sum(float)"),
    ("min", "int", "Min(int)"),
    ("min", "float", "Min(float)"),
    ("max", "int", "Max(int)"),
    ("max", "float", "Max(float)"),
    ("latest", "int", "Latest(int)"),
    ("latest", "float", "Latest(float)"),
    ("either", "int", "Algebra(int, combine=either, identity=0)"),
    (
        "add",
        "int",
        "Algebra(int, combine=add, identity=0, inverse=minus, samples=[0, 1, 5, 50, 96])",
    ),
]
VECTORS = [
    ("sum", "int", "Sum(int, size=2)"),
    ("sum", "float", "Sum(float, size=3)"),
    ("min", "int", "Min(int, size=2)"),
    ("max", "float", "Max(float, size=2)"),
    ("either", "int", "Algebra(int, combine=either, identity=0, size=2)"),
]
LATEST_VECTORS = [
    ("latest", "int", "Latest(int, size=2)"),
    ("latest", "float", "Latest(float, size=3)"),
]


@dataclass(frozen=True)
class RandomProgram:
    """Source text of one or two Vertex classes, and what a run of them needs.

    `kinds` are the class names. The parameter `hub` wants the id of a vertex.
    """

    source: str
    kinds: tuple[str, ...]
    creates: bool  # it may create vertices

    def load(self, path: Path) -> Program:
        """Write the source to `path`, so that it can be read back, and define the classes."""
        path.write_text(self.source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError(path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return Program(*(getattr(module, kind) for kind in self.kinds), name=path.stem.lower())


def random_program(
    rng: random.Random,
    *,
    always: bool | None = None,
    algebra: str | None = None,
    classes: int | None = None,
) -> RandomProgram:
    """Make a program; a parameter that is None is left to `rng`.

    Args:
        rng: gives the same program for the same seed.
        always: of the always kind, instead of the pure kind.
        algebra: its messages: sum, min, max, latest, either or add; or "latest vectors".
        classes: one or two.
    """
    if always is None:
        always = rng.random() < 0.5
    vectors = VECTORS if algebra != "latest vectors" else LATEST_VECTORS
    choices = [(*c, 0) for c in SCALARS] + [(*c, int(c[2].split("size=")[1][0])) for c in vectors]
    chosen = [c for c in choices if algebra is None or c[0] == algebra]
    if vectors is LATEST_VECTORS:
        chosen = choices[len(SCALARS) :]
    name, element, constructor, size = rng.choice(chosen)
    direction = rng.choice(["out", "out", "in", "both", "undirected"])
    count = classes or rng.choice([1, 1, 1, 2])
    kinds = ("Red", "Blue")[:count]
    shared = Shared(rng, always, name, element, constructor, size, direction, count)
    bodies = [ClassText(kind, shared).source() for kind in kinds]
    return RandomProgram("\n\n".join([PRELUDE, *bodies]), kinds, shared.creates)
