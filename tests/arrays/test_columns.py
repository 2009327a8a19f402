"""The column codec: what comes out is what went in, at no copy, or an error that says so."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from vertexsdk.arrays._checksums import BLOCK, block_sums
from vertexsdk.arrays.column_codec import (
    CorruptError,
    Table,
    decode,
    encode,
    encode_bytes,
    map_file,
    pack_strings,
    schema_hash,
    unpack_strings,
    write_file,
)
from vertexsdk.arrays.packed_strings import hash_strings, index_strings, take_strings
from vertexsdk.errors import StateError

DTYPES = st.sampled_from(["<f8", "<i8", "<i4", "u1", "<u8", "?", "<f4"])
SHAPES = npst.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=9)
COLUMNS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: "." not in name),
    DTYPES.flatmap(lambda dtype: npst.arrays(dtype, SHAPES)),
    max_size=5,
)
TEXTS = st.lists(st.text(st.characters(codec=None), max_size=12), max_size=30)


@given(COLUMNS, st.dictionaries(st.text(max_size=5), st.integers() | st.text(), max_size=3))
@settings(max_examples=100, deadline=None)
def test_round_trip(columns: dict[str, Any], meta: dict[str, Any]) -> None:
    decoded, same = decode(encode_bytes(columns, meta), verify=True)
    assert list(decoded) == list(columns)
    assert same == meta
    for name, array in columns.items():
        assert decoded[name].dtype == array.dtype
        np.testing.assert_array_equal(decoded[name], array)


def test_arrays_are_not_copied_on_the_way_in_or_out() -> None:
    values = np.arange(100_000, dtype=np.float64)
    buffers = encode({"rank": values})
    assert any(np.shares_memory(np.frombuffer(b, np.uint8), values) for b in buffers)
    whole = np.frombuffer(b"".join(buffers), np.uint8)
    aligned = np.empty(whole.size + 64, np.uint8)
    aligned = aligned[-aligned.ctypes.data % 64 :][: whole.size]
    aligned[:] = whole
    out = decode(aligned)[0]["rank"]
    assert np.shares_memory(out, aligned)
    assert out.ctypes.data % 64 == 0
    assert not out.flags.writeable


def test_a_misaligned_buffer_gives_aligned_arrays() -> None:
    data = encode_bytes({"x": np.arange(10.0)})
    for shift in range(1, 9):
        out = decode(memoryview(bytes(shift) + data)[shift:], verify=True)[0]["x"]
        assert out.flags.aligned
        np.testing.assert_array_equal(out, np.arange(10.0))


@pytest.mark.parametrize("rows", [1, 10, BLOCK // 8, 3 * BLOCK // 8 + 5])
def test_every_flipped_bit_is_found_and_the_column_named(rows: int) -> None:
    good = encode_bytes({"id": np.arange(rows), "rank": np.linspace(0, 1, rows)})
    random = np.random.default_rng(rows)
    places = {*random.integers(0, len(good), 150).tolist(), *range(120)}
    expected = decode(good)[0]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << int(random.integers(8))
        try:
            columns, _ = decode(bad, verify=True)
        except CorruptError:
            continue
        for name, array in expected.items():  # only padding and the total length are not needed
            np.testing.assert_array_equal(columns[name], array)
    bad = bytearray(good)
    bad[-1 - (-8 * rows) % 64] ^= 128
    with pytest.raises(CorruptError, match="'rank'"):
        decode(bad, verify=True)
    decode(bad, verify=True, columns=["id"])


def test_two_changed_signs_and_exchanged_words_change_the_sums() -> None:
    words = np.random.default_rng(1).random(BLOCK // 8)
    before = block_sums(words.view(np.uint8))
    for first, second in [(0, 1), (0, 512), (0, 513), (5, 8000)]:
        signs = words.copy()
        signs[[first, second]] *= -1
        swapped = words.copy()
        swapped[[first, second]] = words[[second, first]]
        assert block_sums(signs.view(np.uint8))[0] != before[0]
        assert block_sums(swapped.view(np.uint8))[0] != before[0]


def test_a_row_is_read_without_checking_the_rest() -> None:
    rows = 10 * BLOCK // 8
    data = bytearray(encode_bytes({"rank": np.arange(rows, dtype=float)}))
    data[-1] ^= 1
    table = Table(data)
    assert table.row("rank", 17) == 17.0
    with pytest.raises(CorruptError):
        table.row("rank", rows - 1)


@given(st.lists(st.integers(0, 2000), max_size=6))
@settings(max_examples=50, deadline=None)
def test_cuts_may_be_anywhere(cuts: list[int]) -> None:
    columns = {"id": np.arange(80), "rank": np.linspace(0, 1, 80)}
    data = encode_bytes(columns)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    decoded, _ = decode([data[a:b] for a, b in pairwise(bounds)], verify=True)
    for name, array in columns.items():
        np.testing.assert_array_equal(decoded[name], array)


@pytest.mark.parametrize("rows", [0, 1, 5, BLOCK // 8, 40 * BLOCK // 8 + 3])
def test_search_is_searchsorted(rows: int) -> None:
    ids = np.sort(np.random.default_rng(rows).integers(0, 10**6, rows))
    wanted = np.array([-1, 0, 500_000, *ids[:1], *ids[-1:], 10**6 + 1])
    table = Table(encode_bytes({"id": ids}))
    for some in (wanted[:1], wanted[1:4], wanted, np.repeat(wanted, 50)):
        np.testing.assert_array_equal(table.search("id", some), np.searchsorted(ids, some))


def test_search_never_steps_on_a_changed_block_unseen() -> None:
    ids = np.arange(40 * BLOCK // 8)
    good = encode_bytes({"id": ids})
    bad = bytearray(good)
    bad[len(good) - 20 * BLOCK] ^= 1
    answers: list[bool | None] = []
    for value in range(0, ids.size, 1000):
        try:
            answers.append(int(Table(bad).search("id", np.array([value]))[0]) == value)
        except CorruptError:
            answers.append(None)
    assert False not in answers
    assert None in answers


def test_cut_short_foreign_and_other_versions_are_refused() -> None:
    good = encode_bytes({"x": np.arange(5)})
    with pytest.raises(CorruptError, match="cut short"):
        decode(good[:-1])
    with pytest.raises(CorruptError, match="first bytes"):
        decode(b"source target\n1 2\n")
    with pytest.raises(CorruptError, match="first bytes"):
        decode(b"")
    with pytest.raises(CorruptError, match="format 0"):
        decode(good[:7] + b"\0" + good[8:])


def test_objects_need_trust_and_strings_do_not() -> None:
    names = np.array(["ä", "", "x" * 100, "\udcff"], dtype=object)
    things = np.array([None, {"a": 1}, (1, 2), "s"], dtype=object)
    data = encode_bytes({"label": names, "thing": things})
    assert decode(data, columns=["label"])[0]["label"].tolist() == names.tolist()
    assert Table(data).row("label", 2) == "x" * 100
    with pytest.raises(StateError, match="trusted=True"):
        decode(data)
    columns, _ = decode(data, trusted=True, verify=True)
    assert columns["thing"].tolist() == things.tolist()
    assert Table(data).row("thing", 1, trusted=True) == {"a": 1}


def test_an_object_in_many_rows_is_stored_once_and_comes_back_as_one() -> None:
    large = frozenset(range(1000))
    things = np.array([large, None, large, (1, 2), None, large], dtype=object)
    data = encode_bytes({"thing": things, "text": np.array(["a", "b"], object)})
    assert len(data) < len(encode_bytes({"thing": np.array([large], object)})) + 1000
    columns, _ = decode(data, trusted=True, verify=True)
    assert list(columns) == ["thing", "text"]
    assert columns["thing"].tolist() == things.tolist()
    assert columns["thing"][0] is columns["thing"][2] is columns["thing"][5]
    assert not columns["thing"].flags.writeable
    table = Table(data)
    assert [table.row("thing", k, trusted=True) for k in range(6)] == things.tolist()
    assert table.is_pickled("thing")
    assert not table.is_pickled("text")
    with pytest.raises(StateError, match="trusted=True"):
        table.column("thing")


class _NotPicklable:
    def __reduce__(self) -> Any:
        raise TypeError("no")


def test_what_cannot_be_stored_is_refused_by_name() -> None:
    bad = np.empty(1, object)
    bad[0] = _NotPicklable()
    with pytest.raises(StateError, match=r"'f'.*pickled"):
        encode({"f": bad})
    with pytest.raises(StateError, match="'when'"):
        encode({"when": np.zeros(3, "M8[s]")})
    with pytest.raises(StateError, match="'cube'"):
        encode({"cube": np.zeros((2, 2, 2))})
    with pytest.raises(StateError, match=r"two columns.*'f\.bytes'"):
        encode({"f": np.array(["a"], object), "f.bytes": np.zeros(1)})


def test_big_endian_and_strided_arrays_arrive_by_value() -> None:
    columns = {"a": np.arange(5, dtype=">i8"), "b": np.arange(10.0)[::2]}
    out, _ = decode(encode_bytes(columns), verify=True)
    np.testing.assert_array_equal(out["a"], np.arange(5))
    np.testing.assert_array_equal(out["b"], [0, 2, 4, 6, 8])


def test_schema_hash_is_of_names_and_types() -> None:
    columns = {"id": np.zeros(3, np.int64), "v": np.zeros((3, 2))}
    assert schema_hash(columns) == schema_hash(dict(reversed(columns.items())))
    assert schema_hash(columns) == Table(encode_bytes(columns)).schema
    assert schema_hash(columns) != schema_hash({**columns, "v": np.zeros((3, 3))})
    words = [np.array(["a"], object), np.array(["a"]), np.array(["ab"])]
    assert len({schema_hash({"w": w}) for w in words}) == 1


def test_files_are_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    size = write_file(path, {"x": np.arange(1000)}, {"k": 1}, durable=True)
    assert path.stat().st_size == size
    columns, meta = map_file(path, verify=True)
    assert meta == {"k": 1}
    assert columns["x"].ctypes.data % 64 == 0
    with pytest.raises(StateError):
        write_file(path, {"x": np.zeros(1, "M8[s]")})
    assert os.listdir(tmp_path) == ["segment"]
    np.testing.assert_array_equal(map_file(path)[0]["x"], np.arange(1000))
    raw = bytearray(path.read_bytes())
    raw[-65] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CorruptError, match="segment"):
        map_file(path, verify=True)
    path.write_bytes(b"")
    with pytest.raises(CorruptError, match="empty"):
        map_file(path)


@given(TEXTS)
@settings(max_examples=100, deadline=None)
def test_packed_strings(texts: list[str]) -> None:
    offsets, utf8 = pack_strings(texts)
    assert unpack_strings(offsets, utf8) == texts
    rows = np.arange(len(texts))[::-2].astype(np.int64)
    assert unpack_strings(*take_strings(offsets, utf8, rows)) == [texts[r] for r in rows]
    ones = [hash_strings(*pack_strings([text]))[0] for text in texts]
    assert hash_strings(offsets, utf8).tolist() == ones
    hashes, order = index_strings(offsets, utf8)
    assert sorted(order) == list(range(len(texts)))
    assert hashes.tolist() == [ones[row] for row in order] == sorted(ones)


def test_hashes_spread_and_stay_what_they_were() -> None:
    hashes = hash_strings(*pack_strings(str(i) for i in range(200_000)))
    assert np.unique(hashes).size == hashes.size
    assert hash_strings(*pack_strings(["vertex"])).tolist() == [12905059173065295829]


def test_no_heavy_imports() -> None:
    heavy = "[m for m in ('numba', 'pyspark', 'pandas', 'pyarrow') if m in sys.modules]"
    code = f"import sys, vertexsdk.arrays.column_codec; print({heavy})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
