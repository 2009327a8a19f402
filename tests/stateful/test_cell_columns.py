"""Products of matrices by columns of cells have the bits that loops over the cells have."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk import Matrix, SparseVector
from vertexsdk.program.keyed_state import Journal, TableSpec
from vertexsdk.stateful.elements import CellColumns, MatrixState


def product(rows: dict[Any, dict[Any, float]], vector: SparseVector) -> SparseVector:
    sums: dict[Any, float] = {}
    for row, cells in rows.items():
        for column, value in vector:
            if column in cells:
                sums[row] = sums.get(row, 0.0) + cells[column] * value
    return SparseVector(sums)


@pytest.mark.parametrize("kind", [int, str])
def test_drawn_changes(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are set, removed and taken back; rows are cleared; forks go their own way."""
    used = 0
    refresh = CellColumns._refresh

    def counted(columns: CellColumns, rows: Any) -> None:
        nonlocal used
        used += 1
        refresh(columns, rows)

    monkeypatch.setattr(CellColumns, "_refresh", counted)
    chance = random.Random(seed())
    journal = Journal()
    journal.running = True
    state: Any = MatrixState(TableSpec("cells", Matrix(kind, kind)), journal)
    for _ in range(120):
        mark = state.journal.mark()
        for _ in range(chance.randint(0, 200)):
            at = kind(chance.randrange(200)), kind(chance.randrange(100))
            draw = chance.random()
            if draw < 0.85:
                state[at] = chance.choice([chance.gauss(0, 1), 0.0, np.inf, -1e300])
            elif draw < 0.95 and at in state:
                del state[at]
            elif draw > 0.99:
                state.clear(at[0])
        vector = SparseVector(
            {kind(c): chance.gauss(0, 1) for c in chance.sample(range(120), chance.randint(0, 60))}
        )
        for _ in range(2):
            assert repr(state.multiply(vector)) == repr(product(state.rows, vector))
            if chance.random() < 0.4:
                state.journal.undo(mark)
        if chance.random() < 0.1:
            state.journal.clear()
            other = state.fork(Journal())
            other.journal.running = True
            state[kind(3), kind(5)] = 7.0
            assert repr(other.multiply(vector)) == repr(product(other.rows, vector))
            state = other
    assert used > 60
