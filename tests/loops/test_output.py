"""Result files read back as what was written."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vertexsdk.errors import InputError
from vertexsdk.loops.output import check_path, write
from vertexsdk.program.algebra import INT_MAX, INT_MIN


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)), max_size=30)
)
@settings(deadline=None)
def test_floats_in_full_precision(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, float]]
) -> None:
    ids = np.array([i for i, _ in rows], np.int64)
    values = np.array([v for _, v in rows], np.float64)
    path = tmp_path_factory.mktemp("out") / "out.csv"
    assert write(path, ids, values) == len(rows)
    with path.open() as file:
        header, *lines = csv.reader(file)
    assert header == ["vertex", "value"]
    assert [(int(i), float(v)) for i, v in lines] == rows


def test_csv_by_the_letter(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write(path, np.array([3, 1, 2]), np.array([np.inf, 0.1, -0.0]))
    assert path.read_bytes() == b"vertex,value\n3,inf\n1,0.1\n2,-0.0\n"
    write(path, np.array(["a,b", 'q"'], object), np.array([1, 2]))
    assert path.read_text() == 'vertex,value\n"a,b",1\n"q""",2\n'
    write(path, np.array([1]), np.array([[0.5, 1.0]]))
    assert path.read_text() == "vertex,value\n1,0.5 1.0\n"
    write(path, np.array([1]), np.array([True]))
    assert path.read_text() == "vertex,value\n1,true\n"
    write(path, np.array([1, 2, 3]), np.array([3.0, 1e300, -2e-7]))
    assert path.read_text() == "vertex,value\n1,3.0\n2,1e+300\n3,-2e-7\n"
    write(path, np.array([1, 2, 3]), np.array([INT_MAX, INT_MIN, 7]))
    assert path.read_text() == "vertex,value\n1,inf\n2,-inf\n3,7\n"
    write(path, ["a b", "c"], np.array(["d", None], object))
    assert path.read_text() == "vertex,value\na b,d\nc,None\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


@given(st.lists(st.tuples(st.text(), st.text()), max_size=20))
@settings(deadline=None)
def test_any_text_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("out") / "out.csv"
    write(path, np.array([k for k, _ in rows], object), [v for _, v in rows])
    with path.open(encoding="utf-8", newline="") as file:
        assert [tuple(row) for row in csv.reader(file)][1:] == rows


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    write(path, np.array([1, 2, 3]), np.array([0.5, np.inf, 1.0]))
    assert pq.read_table(path).to_pydict() == {"vertex": [1, 2, 3], "value": [0.5, np.inf, 1.0]}
    write(path, ["a", "b"], np.array([[1, 2], [3, 4]]))
    assert pq.read_table(path).to_pydict() == {"vertex": ["a", "b"], "value": [[1, 2], [3, 4]]}
    write(path, np.array([1, 2]), np.array([1j, None], object))
    assert pq.read_table(path).to_pydict() == {"vertex": [1, 2], "value": ["1j", "None"]}
    write(path, np.empty(0, np.int64), np.empty(0))
    assert pq.read_table(path).num_rows == 0


def test_bad_outputs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"name it \.csv or \.parquet"):
        check_path(tmp_path / "out.txt")
    with pytest.raises(InputError, match="no such directory"):
        check_path(tmp_path / "none" / "out.csv")
