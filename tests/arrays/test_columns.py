"""Columns as Arrow tables and as raw bytes: what comes out is what went in, or an error."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from vertexsdk.arrays.arrow_table import BLOCK, TRAILER, Table, block_sums, encode, schema_hash
from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.arrays.packed_strings import (
    hash_strings,
    pack_strings,
    take_strings,
    unpack_strings,
)
from vertexsdk.arrays.raw_columns import decode, encode_bytes, map_file, write_file
from vertexsdk.errors import StateError

DTYPES = st.sampled_from(["<f8", "<i8", "<i4", "u1", "<u8", "?", "<f4", "<c16", "<f2"])
SHAPES = npst.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=9)
COLUMNS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: "." not in name),
    DTYPES.flatmap(lambda dtype: npst.arrays(dtype, SHAPES)),
    max_size=5,
)
TEXTS = st.lists(st.text(st.characters(codec=None), max_size=12), max_size=30)


def segment(columns: dict[str, Any], meta: Any = None) -> bytes:
    return b"".join(encode(columns, meta))


def read(data: Any, *, trusted: bool = False) -> dict[str, Any]:
    table = Table(data)
    return {name: table.column(name, verify=True, trusted=trusted) for name in table.names}


@given(COLUMNS, st.dictionaries(st.text(max_size=5), st.integers() | st.text(), max_size=3))
@settings(max_examples=100, deadline=None)
def test_round_trip(columns: dict[str, Any], meta: dict[str, Any]) -> None:
    data = segment(columns, meta)
    raw, also = decode(encode_bytes(columns, meta))
    assert Table(data).meta == also == meta
    for decoded in (read(data), raw):
        assert list(decoded) == list(columns)
        for name, array in columns.items():
            assert decoded[name].dtype == array.dtype
            np.testing.assert_array_equal(decoded[name], array)


def test_any_arrow_reader_reads_a_segment() -> None:
    offsets, utf8 = pack_strings(["a", "", "é"])
    columns = {
        "id": np.arange(3), "name.offsets": offsets, "name.bytes": utf8,
        "place": np.arange(6.0).reshape(3, 2), "text": np.array(["x", "y", "z"], object),
        "thing": np.array([{1}, None, 2], object),
    }  # fmt: skip
    table = pa.ipc.open_stream(segment(columns)).read_all()
    table.validate(full=True)
    assert table.column("name").to_pylist() == ["a", "", "é"]
    assert table.column("text").to_pylist() == ["x", "y", "z"]
    assert table.column("place").to_pylist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert table.schema.field("thing").type == pa.large_binary()
    assert table.schema.field("thing").metadata[b"text"] == b"pickle"
    longer = {**columns, "edge": np.arange(7)}
    (row,) = pa.ipc.open_stream(segment(longer)).read_all().to_pylist()
    assert (row["edge"], row["name"]) == (list(range(7)), ["a", "", "é"])


@pytest.mark.parametrize("rows", [1, 3, 8, 1000])
def test_numbers_begin_at_multiples_of_64_bytes(rows: int) -> None:
    columns = {"id": np.arange(rows), "f": np.zeros(rows, "f4"), "v": np.zeros((rows, 3))}
    table = Table(segment({**columns, "text": np.array(["x"] * rows, object), "b": np.ones(7)}))
    assert [table._places[name][2] % 64 for name in ("id", "f", "v", "b")] == [0] * 4


def test_arrays_are_not_copied_on_the_way_in_or_out() -> None:
    values = np.arange(100_000, dtype=np.float64)
    buffers = encode({"rank": values})
    assert any(np.shares_memory(np.frombuffer(b, np.uint8), values) for b in buffers)
    whole = np.frombuffer(b"".join(buffers), np.uint8)
    aligned = np.empty(whole.size + 64, np.uint8)
    aligned = aligned[-aligned.ctypes.data % 64 :][: whole.size]
    aligned[:] = whole
    out = Table(aligned).column("rank")
    assert np.shares_memory(out, aligned)
    assert out.ctypes.data % 64 == 0
    assert not out.flags.writeable
    block = encode_bytes({"rank": values})
    assert np.shares_memory(decode(block)[0]["rank"], np.frombuffer(block, np.uint8))


def test_a_misaligned_buffer_gives_aligned_arrays() -> None:
    data = segment({"x": np.arange(10.0)})
    for shift in range(1, 9):
        out = read(memoryview(bytes(shift) + data)[shift:])["x"]
        assert out.flags.aligned
        np.testing.assert_array_equal(out, np.arange(10.0))


@pytest.mark.parametrize("rows", [1, 10, BLOCK // 8, 3 * BLOCK // 8 + 5])
def test_every_flipped_bit_is_found_and_the_column_named(rows: int) -> None:
    expected = {"id": np.arange(rows), "rank": np.linspace(1, 2, rows)}
    good = segment(expected)
    random = np.random.default_rng(rows)
    places = {*random.integers(0, len(good), 150).tolist(), *range(120)}
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << int(random.integers(8))
        try:
            columns = read(bad)
        except CorruptError:
            continue
        for name, array in expected.items():  # only padding is not needed
            np.testing.assert_array_equal(columns[name], array)
    bad = bytearray(good)
    bad[bad.rindex(np.float64(expected["rank"][-1]).tobytes())] ^= 128
    with pytest.raises(CorruptError, match="'rank'"):
        read(bad)
    Table(bad).column("id", verify=True)


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
    data = bytearray(segment({"rank": np.arange(rows, dtype=float)}))
    data[data.rindex(np.float64(rows - 1).tobytes())] ^= 1
    table = Table(data)
    assert table.row("rank", 17) == 17.0
    with pytest.raises(CorruptError):
        table.row("rank", rows - 1)


@given(st.lists(st.integers(0, 2000), max_size=6))
@settings(max_examples=50, deadline=None)
def test_cuts_may_be_anywhere(cuts: list[int]) -> None:
    columns = {"id": np.arange(80), "rank": np.linspace(0, 1, 80)}
    data = segment(columns)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    decoded = read([data[a:b] for a, b in pairwise(bounds)])
    for name, array in columns.items():
        np.testing.assert_array_equal(decoded[name], array)


def test_cut_short_foreign_and_other_versions_are_refused() -> None:
    good = segment({"x": np.arange(5)})
    for bad in (good[:-1], b"source target\n1 2\n", b"", good[: -TRAILER.size]):
        with pytest.raises(CorruptError, match="not a segment, or was cut short"):
            Table(bad)
    block = encode_bytes({"x": np.arange(5)})
    for bad in (block[:-1], b"source target\n1 2\n", b""):
        with pytest.raises(CorruptError, match="a block of columns is damaged"):
            decode(bad)


def test_objects_need_trust_and_strings_do_not() -> None:
    names = np.array(["ä", "", "x" * 100, "\udcff"], dtype=object)
    things = np.array([None, {"a": 1}, (1, 2), "s"], dtype=object)
    data = segment({"label": names, "thing": things})
    table = Table(data)
    assert table.column("label", verify=True).tolist() == names.tolist()
    assert table.row("label", 2) == "x" * 100
    assert table.is_pickled("thing")
    assert not table.is_pickled("label")
    with pytest.raises(StateError, match="trusted=True"):
        table.column("thing")
    with pytest.raises(StateError, match="trusted=True"):
        decode(encode_bytes({"thing": things}))
    assert read(data, trusted=True)["thing"].tolist() == things.tolist()
    assert table.row("thing", 1, trusted=True) == {"a": 1}


def test_an_object_in_many_rows_of_a_block_is_sent_once_and_comes_back_as_one() -> None:
    large = frozenset(range(1000))
    things = np.array([large, None, large, (1, 2), None, large], dtype=object)
    data = encode_bytes({"thing": things, "text": np.array(["a", "b"], object)})
    assert len(data) < len(encode_bytes({"thing": np.array([large], object)})) + 1000
    columns, _ = decode(data, trusted=True)
    assert list(columns) == ["thing", "text"]
    assert columns["thing"].tolist() == things.tolist()
    assert columns["thing"][0] is columns["thing"][2] is columns["thing"][5]
    assert not columns["thing"].flags.writeable


class _NotPicklable:
    def __reduce__(self) -> Any:
        raise TypeError("no")


def test_what_cannot_be_stored_is_refused_by_name() -> None:
    bad = np.empty(1, object)
    bad[0] = _NotPicklable()
    for write in (encode, encode_bytes):
        with pytest.raises(StateError, match=r"'f'.*pickled"):
            write({"f": bad})
    with pytest.raises(StateError, match="'when'"):
        encode({"when": np.zeros(3, "M8[s]")})
    with pytest.raises(StateError, match="'cube'"):
        encode({"cube": np.zeros((2, 2, 2))})
    with pytest.raises(StateError, match=r"two columns.*'f\.bytes'"):
        encode({"f": np.array(["a"], object), "f.bytes": np.zeros(1)})


def test_big_endian_and_strided_arrays_arrive_by_value() -> None:
    columns = {"a": np.arange(5, dtype=">i8"), "b": np.arange(10.0)[::2]}
    for out in (read(segment(columns)), decode(encode_bytes(columns))[0]):
        np.testing.assert_array_equal(out["a"], np.arange(5))
        np.testing.assert_array_equal(out["b"], [0, 2, 4, 6, 8])


def test_schema_hash_is_of_names_and_types() -> None:
    columns = {"id": np.zeros(3, np.int64), "v": np.zeros((3, 2))}
    assert schema_hash(columns) == schema_hash(dict(reversed(columns.items())))
    assert schema_hash(columns) == Table(segment(columns)).schema
    assert schema_hash(columns) != schema_hash({**columns, "v": np.zeros((3, 3))})
    words = [np.array(["a"], object), np.array(["a"]), np.array(["ab"])]
    assert len({schema_hash({"w": w}) for w in words}) == 1


def test_files_are_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "block"
    size = write_file(path, {"x": np.arange(1000)}, {"k": 1})
    assert path.stat().st_size == size
    columns, meta = map_file(path)
    assert meta == {"k": 1}
    assert columns["x"].ctypes.data % 64 == 0
    bad = np.empty(1, object)
    bad[0] = _NotPicklable()
    with pytest.raises(StateError):
        write_file(path, {"x": bad})
    assert os.listdir(tmp_path) == ["block"]
    np.testing.assert_array_equal(map_file(path)[0]["x"], np.arange(1000))
    for raw in (path.read_bytes()[:-1], b""):
        path.write_bytes(raw)
        with pytest.raises(CorruptError, match="block"):
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


def test_hashes_spread_and_stay_what_they_were() -> None:
    hashes = hash_strings(*pack_strings(str(i) for i in range(200_000)))
    assert np.unique(hashes).size == hashes.size
    assert hash_strings(*pack_strings(["vertex"])).tolist() == [12905059173065295829]


@pytest.mark.full
def test_no_heavy_imports() -> None:
    heavy = "[m for m in ('numba', 'pyspark', 'pandas') if m in sys.modules]"
    code = f"import sys, vertexsdk.arrays.arrow_table; print({heavy})"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    assert out.stdout.strip() == "[]"
