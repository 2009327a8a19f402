"""Offsets into packed strings are checked: a right checksum does not make them right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vertexsdk.arrays.arrow_strings import unpack_arrow
from vertexsdk.arrays.column_codec import encode_bytes
from vertexsdk.arrays.column_table import Table
from vertexsdk.loops._change_log import ChangeLog
from vertexsdk.loops.result import Result
from vertexsdk.state import CorruptError, Store, open_store

WRONG = {
    "middle beyond the bytes": [0, 1 << 40, 3],
    "middle below zero": [0, -8, 3],
    "falling": [0, 3, 1, 3],
    "first": [1, 2, 3],
    "last": [0, 1, 2],
    "beyond": [0, 1, 1 << 40],
    "none": [],
}
DATA = np.frombuffer(b"abc", np.uint8)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(f"lmdb://{tmp_path}/store") as opened:
        yield opened


def committed(store: Store, kind: Any, columns: dict[str, Any]) -> None:
    ref = store.put_segment("loop", 0, 0, kind, columns)
    schema = {"rank": {"type": "float"}}
    store.commit("loop", iteration=0, segments=[ref], schema=schema, partitions=1, ids="str")


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_a_log_with_wrong_offsets_is_damaged(store: Store, wrong: list[int]) -> None:
    offsets, n = np.array(wrong, np.int64), max(len(wrong) - 1, 0)
    ids = {"target": np.zeros(n, np.int64), "source.offsets": offsets, "source.bytes": DATA}
    committed(store, "changes", {"kind": np.zeros(n, np.uint8), "value": np.zeros(n), **ids})
    with pytest.raises(CorruptError, match=r"segment .* is damaged: column 'source\.offsets'"):
        list(ChangeLog.replay(store, store.version("loop"), sent=False, undirected=False))


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_arrow_is_given_no_wrong_offsets(wrong: list[int]) -> None:
    with pytest.raises(CorruptError, match="'offsets' does not rise from 0 to the 3 bytes"):
        unpack_arrow(np.array(wrong, np.int64), DATA)


def test_arrow_is_given_nothing_else_that_is_wrong() -> None:
    with pytest.raises(CorruptError, match="'offsets' is int32, and offsets are int64"):
        unpack_arrow(np.array([0, 3], np.int32), DATA)
    with pytest.raises(CorruptError, match=r"stored strings are damaged: .*UTF8"):
        unpack_arrow(np.array([0, 1]), np.array([255], np.uint8))
    assert unpack_arrow(np.array([0, 1, 3]), DATA).to_pylist() == ["a", "bc"]


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_names_with_wrong_offsets_are_damaged(
    store: Store, tmp_path: Path, wrong: list[int]
) -> None:
    offsets, n = np.array(wrong, np.int64), max(len(wrong) - 1, 0)
    names = {"name.offsets": offsets, "name.bytes": DATA}
    index = {"name.hash": np.zeros(n, np.uint64), "name.order": np.arange(n)}
    committed(store, "base", {"id": np.arange(n), "rank": np.zeros(n), **names, **index})
    result = Result(f"lmdb://{tmp_path}/store", "loop")
    with pytest.raises(CorruptError, match=r"segment .* is damaged: column 'name\.offsets'"):
        result.columns()
    result.close()


@pytest.mark.parametrize("wrong", [[0, 1 << 40, 3], [0, -8, 3], [0, 3, 1, 3]], ids=str)
def test_one_string_with_wrong_offsets_is_damaged(wrong: list[int]) -> None:
    right = encode_bytes({"text": np.array(["a", "b", "c"][: len(wrong) - 1], object)})
    offsets = np.array(wrong, np.int64)
    parts = {"text.offsets": offsets, "text.bytes": DATA}
    table = Table(encode_bytes(parts))
    table._packed = Table(right)._packed
    with pytest.raises(CorruptError, match=r"column 'text\.bytes' has 3 rows"):
        [table.row("text", row) for row in range(len(wrong) - 1)]
    with pytest.raises(CorruptError, match=r"column 'text\.offsets' does not rise"):
        table.column("text", verify=True)


@pytest.mark.parametrize("index", [[0, 2], [0, -1]], ids=str)
def test_an_object_that_is_not_there_is_damaged(index: list[int]) -> None:
    one, other = (1,), (2,)
    things = np.empty(3, object)
    things[:] = [one, other, one]
    table = Table(encode_bytes({"thing": things}))
    parts = {f"thing.{p}": np.array(table.column(f"thing.{p}")) for p in ("offsets", "bytes")}
    again = Table(encode_bytes({**parts, "thing.index": np.array(index, np.int32)}))
    again._packed = table._packed
    with pytest.raises(CorruptError, match=r"column 'thing\.offsets' has 3 rows"):
        again.column("thing", verify=True, trusted=True)
    with pytest.raises(CorruptError, match=r"column 'thing\.(offsets|index)'"):
        [again.row("thing", row, trusted=True) for row in range(2)]
