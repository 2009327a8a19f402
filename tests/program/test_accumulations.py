"""A total that is made of the last one and what changed is the one that is made at once."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from tests.support.seeds import draws, seed
from vertexsdk import Algebra, Latest, Max, Mean, Min, Sum
from vertexsdk.program.accumulations import accumulation
from vertexsdk.program.keyed import ABSENT
from vertexsdk.program.keyed_state import Journal
from vertexsdk.program.table_columns import Column, VectorColumn
from vertexsdk.program.trigger_program import CellElement, CellRows, TableSpec

FLOATS = [0.0, -0.0, 0.1, -0.3, 1e-300, 1e16, -1e16, 1.7e308, -1.7e308, math.inf, -math.inf, 3.0]
INTS = [0, 1, -1, (1 << 63) - 1, -(1 << 63), 7]
XOR = Algebra(int, combine=lambda a, b: a ^ b, identity=0, inverse=lambda a: a)
CASES = [
    (Sum(float), "float", FLOATS), (Sum(float), "float", FLOATS[:8]),
    (Mean(float), "float", FLOATS), (Min(float), "float", FLOATS),
    (Max(float), "float", FLOATS), (Sum(int), "int", INTS),
    (Min(int), "int", INTS), (Max(int), "int", INTS), (Mean(int), "int", INTS), (XOR, "int", INTS),
]  # fmt: skip


def equal(one: Any, other: Any) -> bool:
    if one is ABSENT or other is ABSENT:
        return one is other
    return type(one) is type(other) and (one == other or (one != one and other != other))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_totals_of_changes(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after changes were taken back, to the last bit, whatever the order of changes."""
    algebra, kind, values = CASES[case]
    chance = random.Random(seed())
    value = Column("value", kind, values[0])
    whole = accumulation(algebra, value)
    assert whole.incremental
    for few, worth in [(0, 0), (32, 16)] * draws(2, 20):
        monkeypatch.setattr("vertexsdk.program.trigger_program._FEW_CELLS", few)
        monkeypatch.setattr("vertexsdk.program.trigger_program._WORTH", worth)
        journal = Journal()
        journal.running = True
        rows = CellRows(TableSpec("cells", CellElement(algebra, value)), journal)
        for _ in range(200):
            mark = journal.mark()
            for _ in range(chance.randint(1, 3)):
                column = chance.randrange(60)
                if chance.random() < 0.3:
                    rows.discard_cell("row", column)
                else:
                    rows.put_cell("row", column, value.convert(chance.choice(values)))
            if chance.random() < 0.5:
                rows.total("row")
            if chance.random() < 0.1:
                journal.undo(mark)
            shuffled = list(rows.rows.get("row", {}).items())
            chance.shuffle(shuffled)
            assert equal(rows.total("row"), whole.total(dict(shuffled)))


def test_totals_of_vectors_and_of_any_algebra() -> None:
    vectors = VectorColumn("value", "float", np.zeros(2).tobytes(), 2)
    cells = {k: np.array([k, 0.5]).tobytes() for k in (3, 1)}
    assert accumulation(Sum(float, size=2), vectors).total(cells).tolist() == [4.0, 1.0]
    assert accumulation(Sum(float, size=2), vectors).total({}).tolist() == [0.0, 0.0]
    assert accumulation(Mean(float, size=2), vectors).total(cells).tolist() == [2.0, 0.5]
    assert accumulation(Mean(float, size=2), vectors).total({}) is ABSENT
    product = Algebra(float, combine=lambda a, b: a * b, identity=1.0)
    numbers = Column("value", "float", 0.0)
    assert accumulation(product, numbers).total({"a": 2.0, 3: 4.0}) == 8.0
    assert accumulation(Latest(str), Column("value", "str", "")).total({1: "a"}) == {1: "a"}
