"""Offsets into packed strings are checked: a right checksum does not make them right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.segments import with_column
from vertexsdk.arrays.arrow_table import Table, encode
from vertexsdk.arrays.packed_strings import unpack_arrow
from vertexsdk.loops.change_log import ChangeLog
from vertexsdk.loops.result import Result
from vertexsdk.state import CorruptError, Store, open_store

WRONG = {
    "middle beyond the bytes": [0, 1 << 40, 3],
    "middle below zero": [0, -8, 3],
    "falling": [0, 3, 1, 3],
    "first": [1, 2, 3],
    "last": [0, 1, 2],
    "beyond": [0, 1, 1 << 40],
}
RIGHT = {1: np.array([0, 3]), 2: np.array([0, 1, 3]), 3: np.arange(4)}  # by the number of strings
SCHEMA = {"rank": {"type": "float"}}
DATA = np.frombuffer(b"abc", np.uint8)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(f"lmdb://{tmp_path}/store") as opened:
        yield opened


def forged(store: Store, kind: Any, columns: dict[str, Any], name: str, offsets: Any) -> None:
    """Commit columns with other offsets, of right checksums."""
    ref = store.put_segment("loop", 0, 0, kind, columns)
    (raw,) = store.backend.get_segment(ref.key) or []
    store.backend.put_segment(ref.key, [with_column(raw.tobytes(), name, np.array(offsets))])
    store.commit("loop", iteration=0, segments=[ref], schema=SCHEMA, partitions=1, ids="str")


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_a_log_with_wrong_offsets_is_damaged(store: Store, wrong: list[int]) -> None:
    n = len(wrong) - 1
    ids = {"target": np.zeros(n, np.int64), "source.offsets": RIGHT[n], "source.bytes": DATA}
    columns = {"kind": np.zeros(n, np.uint8), "value": np.zeros(n), **ids}
    forged(store, "changes", columns, "source.offsets", wrong)
    with pytest.raises(CorruptError, match=r"segment .* is damaged: column 'source\.offsets'"):
        list(ChangeLog.replay(store, store.version("loop"), include_sent=False, undirected=False))


@pytest.mark.parametrize("wrong", [*WRONG.values(), []], ids=[*WRONG, "none"])
def test_arrow_is_given_no_wrong_offsets(wrong: list[int]) -> None:
    with pytest.raises(CorruptError, match="'offsets' does not rise from 0 to the 3 bytes"):
        unpack_arrow(np.array(wrong, np.int64), DATA)
    with pytest.raises(CorruptError, match=r"'a\.offsets' does not rise from 0 to the 3 bytes"):
        encode({"a.offsets": np.array(wrong, np.int64), "a.bytes": DATA})


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
    n = len(wrong) - 1
    names = {"name.offsets": RIGHT[n], "name.bytes": DATA}
    columns = {"id": np.arange(n), "rank": np.zeros(n), **names}
    forged(store, "base", columns, "name.offsets", wrong)
    result = Result(f"lmdb://{tmp_path}/store", "loop")
    with pytest.raises(CorruptError, match=r"segment .* is damaged: column 'name\.offsets'"):
        result.columns()
    result.close()


@pytest.mark.parametrize("wrong", [[0, 1 << 40, 3], [0, -8, 3], [0, 3, 1, 3]], ids=str)
def test_one_string_with_wrong_offsets_is_damaged(wrong: list[int]) -> None:
    texts = np.array(["a", "bc"] if len(wrong) == 3 else ["a", "b", "c"], object)
    right = b"".join(encode({"text": texts}))
    table = Table(with_column(right, "text.offsets", np.array(wrong)))
    with pytest.raises(CorruptError, match=r"column 'text\.(bytes|offsets)'"):
        [table.row("text", row) for row in range(len(texts))]
    with pytest.raises(CorruptError, match=r"column 'text\.offsets' does not rise"):
        table.column("text", verify=True)
