"""Arithmetic is the same compiled and interpreted: int64 wraps around, floats are IEEE's."""

from __future__ import annotations

import importlib.util
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import seeds
from tests.support.inprocess import InProcess
from vertexsdk import Latest, Min, Sum, Vertex, aggregate, param, state
from vertexsdk.errors import InputError, RunError
from vertexsdk.program.program import Program

EDGES = [(v, (3 * v + 1) % 40) for v in range(40)] + [(v, v // 2) for v in range(1, 40)]
FNV, PRIME = 0xCBF29CE484222325, 0x100000001B3
EXTREMES = (0, 1, -1, 2, 63, -(2**63), 2**63 - 1, 0x9E3779B97F4A7C15, -7)


def hashed(x):
    h = FNV
    for k in range(8):
        h ^= (x >> (8 * k)) & 255
        h *= PRIME
    return h


def both(cls: type[Vertex], partitions: int = 1, **params: Any) -> list[dict[str, Any]]:
    """The state of every vertex, compiled and interpreted, after the two were compared."""
    runs = InProcess(Program(cls), EDGES)
    compiled, _, _ = runs.run(params, partitions=partitions, compiled="require")
    interpreted, _, _ = runs.run(params, partitions=partitions)
    for v, row in compiled.items():
        for name, x in row.items():
            y = np.asarray(interpreted[v][name])
            same = np.asarray((x == y) | ((x != x) & (y != y)))
            assert same.all(), (v, name, np.flatnonzero(~same), x, y)
    return [compiled[v] for v in sorted(compiled)]


class Mixed(Vertex):
    """A generator of random numbers, a hash, and what leaves int64 in other ways."""

    number: int = state(0)
    hash: int = state(0)
    turned: int = state(0)
    ratio: float = state(0.0)
    total: int = state(0)
    product = aggregate(Sum(int))
    messages = Sum(int)
    max_iterations = 6

    def gather(self, iteration, source, delta):
        self.number = ((self.id + 1) * 6364136223846793005 + 1442695040888963407) % 1000
        self.hash = hashed(self.id) ^ (len(self.targets) * 0x9E3779B97F4A7C15) % 12345
        self.turned = -((1 << 63) + self.id) - abs((-1 << 63) // -1)
        self.turned += (self.id + 3) ** 77 + (7 << (self.id + 30)) + (-5 >> self.id * 2)
        self.ratio = ((1 << 62) + self.id) / 3
        self.product.contribute(1 << 62)
        self.total = self.product.value + delta.value

    def scatter(self, iteration):
        if iteration < 4:
            self.emitAll(self.number * 4611686018427387904 + iteration)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_int64_wraps_around(partitions: int) -> None:
    rows = both(Mixed, partitions)
    for v, row in enumerate(rows):
        exact = ((v + 1) * 6364136223846793005 + 1442695040888963407 + 2**63) % 2**64 - 2**63
        assert row["number"] == exact % 1000


TEMPLATE = """
import math
import numpy as np
from vertexsdk import Sum, Vertex, param, state

BIG = 0x9E3779B97F4A7C15

class Random(Vertex):
    {kind}s: {kind} = state({zero}, size={size})
    a: {kind} = param()
    b: {kind} = param()
    messages = Sum({kind})
    max_iterations = 2

    def gather(self, iteration, source, delta):
        a, b, c = self.a, self.b, {last}
{lines}

    def scatter(self, iteration):
        self.emitAll(self.b)
"""
INTS = ["{} + {}", "{} - {}", "{} * {}", "{} ^ {}", "{} & {}", "{} | {}", "min({}, {})",
        "max({}, {})", "({} if {} < c else a)", "abs({}) - {}", "-{} + ~{}", "({} << ({} & 127))",
        "({} >> ({} & 127))", "{} // ({} | 1)", "{} % ({} | 1)", "{} ** ({} & 127)",
        "int(({} & 1023) / (({} & 15) + 1))"]  # fmt: skip
FLOATS = ["{} + {}", "{} - {}", "{} * {}", "min({}, {})", "max({}, {})", "({} if {} < c else a)",
          "{} / ({} * {} + 1.0)", "abs({}) ** {}", "math.exp({}) + {}", "math.log({}) * {}",
          "math.sqrt({}) - {}", "math.pow({}, {})", "math.sin({}) + {}"]  # fmt: skip


def expression(rng: random.Random, forms: list[str], leaves: list[str], depth: int) -> str:
    if depth == 0:
        return rng.choice(leaves)
    form = rng.choice(forms)
    parts = [expression(rng, forms, leaves, depth - 1) for _ in range(form.count("{}"))]
    return f"({form.format(*parts)})"


@pytest.mark.parametrize("kind", ["int", "float"])
def test_random_expressions(kind: str, tmp_path: Path) -> None:
    seed = seeds.seed()
    rng = random.Random(seed)
    forms, leaves = (INTS, ["a", "b", "c", "BIG"]) if kind == "int" else (FLOATS, ["a", "b", "c"])
    leaves += [str(x) for x in EXTREMES] if kind == "int" else ["0.0", "-1.5", "1e308", "3.0"]
    lines = [f"        self.{kind}s[{k}] = {expression(rng, forms, leaves, 3)}" for k in range(12)]
    source = TEMPLATE.format(
        kind=kind, zero=f"{kind}(0)" if kind == "int" else "0.0", size=12, lines="\n".join(lines),
        last="self.id * BIG" if kind == "int" else "float(self.id)",
    )  # fmt: skip
    file = tmp_path / f"random_{kind}_{seed}.py"
    file.write_text(source.replace("int(0)", "0"))
    print(source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for _ in range(3):
        if kind == "int":
            a, b = (
                rng.choice([rng.randrange(-(2**63), 2**63), rng.choice(EXTREMES[:7])]) for _ in "ab"
            )
        else:
            a, b = (
                rng.choice([rng.gauss(0, 10), 0.0, math.inf, -math.inf, math.nan]) for _ in "ab"
            )
        try:
            both(module.Random, a=a, b=b)
        except RunError as error:  # a division by zero
            failure = str(error).split(": ")[2]
            with pytest.raises(RunError, match=failure):
                InProcess(Program(module.Random), EDGES).run({"a": a, "b": b})


class Divides(Vertex):
    x: float = state(1.0)
    k: int = state(1)
    how: int = param()
    zero: float = param(0.0)
    none: int = param(0)
    messages = Min(float)
    max_iterations = 2

    def gather(self, iteration, source, delta):
        if self.how == 0:
            self.x = 1.0 / self.zero
        elif self.how == 1:
            self.x = 1.0 % self.zero
        elif self.how == 2:
            self.x = self.id / self.none
        elif self.how == 3:
            self.k = self.id // self.none
        elif self.how == 4:
            self.k = self.id % self.none
        elif self.how == 5:
            self.x /= self.zero
        elif self.how == 6:
            self.k = int(self.x * math.nan)
        elif self.how == 7:
            self.k = math.floor(1e300 * self.x)
        elif self.how == 8:
            self.k = 1 << (self.none - 1)
        elif self.how == 9:
            self.k = 2 ** (self.none - 1)
        elif self.how == 10:
            self.k = round(math.inf * self.x)
        elif self.how == 11:
            self.k //= self.none

    def scatter(self, iteration):
        self.emitAll(self.x)


@pytest.mark.parametrize("how", range(12))
@pytest.mark.parametrize("compiled", [False, "require"])
def test_division_by_zero_and_conversions_out_of_range_raise(how: int, compiled: Any) -> None:
    with pytest.raises(RunError, match=r"ZeroDivisionError|OverflowError|ArithmeticError"):
        InProcess(Program(Divides), EDGES).run({"how": how}, compiled=compiled)


class Limits(Vertex):
    """What floats and arrays do where there is no number."""

    results: float = state(size=18)
    zero: float = param(0.0)
    messages = Latest(float)
    max_iterations = 2

    def gather(self, iteration, source, delta):
        self.results[0] = 1e308 * (10.0 + self.zero)
        self.results[1] = self.results[0] - self.results[0]
        self.results[2] = math.sqrt(self.zero - 1.0)
        self.results[3] = math.log(self.zero)
        self.results[4] = math.exp(self.zero + 1000.0)
        self.results[5] = (self.zero + 2.0) ** 1e4
        self.results[6] = self.zero**-1.0
        self.results[7] = (self.zero - 8.0) ** 0.5
        self.results[8] = np.log(self.zero)
        self.results[9] = np.sqrt(self.zero - 1.0)
        self.results[10] = (delta.values / self.zero).sum()
        self.results[11] = math.pow(self.zero - 10.0, 5001.0)
        self.results[12] = math.acos(self.zero + 2.0)
        self.results[13] = max(self.zero, math.nan) + min(math.inf, self.zero)
        self.results[14] = 1.0 if math.nan == self.results[1] else 2.0
        self.results[15] = (self.zero - 10.0) ** 5001.0
        self.results[16] = math.inf % (self.zero + 2.0)
        self.results[17] = -1.0 // (self.zero + math.inf)

    def scatter(self, iteration):
        self.emitAll(1.0)


def test_inf_and_nan() -> None:
    inf, nan = math.inf, math.nan
    wanted = [inf, nan, nan, -inf, inf, inf, inf, nan, -inf, nan, inf, -inf, nan, 0.0, 2.0, -inf,
              nan, -1.0]  # fmt: skip
    assert np.array_equal(both(Limits)[1]["results"], wanted, equal_nan=True)


def test_a_parameter_beyond_int64_is_refused() -> None:
    class Big(Vertex):
        k: int = param()
        n: int = state(0)
        messages = Sum(int)

        def gather(self, iteration, source, delta):
            self.n = self.k

        def scatter(self, iteration):
            pass

    with pytest.raises(InputError, match="k takes int"):
        Program(Big).bind({"k": 2**63})
