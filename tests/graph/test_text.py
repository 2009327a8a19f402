"""The parsers agree with Python's own int and float, wherever chunks are cut."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vertexsdk.graph.load import files, lines
from vertexsdk.graph.load.files import read_chunks
from vertexsdk.graph.load.lines import LineError, Split, lines_of, parse_chunk

INT64 = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    INT64.map(str),
    st.integers(-(10**25), 10**25).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:.30f}"),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:+.17E}"),
    st.from_regex(r"[+-]?[0-9]{0,12}\.?[0-9]{1,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["inf", "-Infinity", "+INF", "5.", "00.10", "-0", "1e-400", "9" * 400]),
)
SEPARATOR = st.sampled_from([" ", "\t", ",", " , ", "  \t"])
END = st.sampled_from(["\n", "\r\n", " \n", "\n\n", "\n# 7 8 9\n", " extra\n", " extra # c 1 2\n"])


@st.composite
def texts(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int, str | None]]]:
    rows = draw(st.lists(st.tuples(INT64, INT64, st.none() | NUMBERS), max_size=20))
    out = draw(st.sampled_from(["", "# head\n", "\n \n"]))
    for a, b, v in rows:
        end = draw(END)
        if v is None:
            end = "\n" if "extra" in end else end
        field = "" if v is None else draw(SEPARATOR) + v
        out += f"{draw(st.sampled_from(['', ' ']))}{a}{draw(SEPARATOR)}{b}{field}{end}"
    if draw(st.booleans()):
        out = out.rstrip("\n")
    return out.encode(), rows


def bits(x: float) -> bytes:
    return struct.pack("d", x)


@settings(max_examples=300, deadline=None)
@given(texts())
def test_floats_and_ids_are_what_python_reads(
    case: tuple[bytes, list[tuple[int, int, str | None]]],
) -> None:
    raw, rows = case
    chunk = parse_chunk(np.frombuffer(raw, np.uint8), 0, len(raw), "float64")
    assert chunk.source.tolist() == [a for a, _, _ in rows]
    assert chunk.target.tolist() == [b for _, b, _ in rows]
    assert chunk.value is not None
    wanted = [1.0 if v is None else float(v) for _, _, v in rows]
    assert list(map(bits, chunk.value.tolist())) == list(map(bits, wanted))
    assert chunk.valued == sum(v is not None for _, _, v in rows)


@settings(max_examples=100, deadline=None)
@given(st.lists(INT64, min_size=1, max_size=20))
def test_int64_values_are_exact(values: list[int]) -> None:
    raw = "".join(f"1 2 {v}\n" for v in values).encode()
    chunk = parse_chunk(np.frombuffer(raw, np.uint8), 0, len(raw), "int64")
    assert chunk.value is not None
    assert chunk.value.tolist() == values


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="1-+.eEinfax_", min_size=1, max_size=8))
def test_a_value_is_a_number_when_float_says_so(token: str) -> None:
    raw = f"1 2 {token}\n".encode()
    try:
        wanted: float | None = float(token.replace("_", "x"))
    except ValueError:
        wanted = None
    try:
        chunk = parse_chunk(np.frombuffer(raw, np.uint8), 0, len(raw), "float64")
    except LineError:
        assert wanted is None or wanted != wanted
    else:
        assert chunk.value is not None
        assert wanted is not None
        assert bits(chunk.value[0]) == bits(wanted)


@settings(max_examples=100, deadline=None)
@given(case=texts(), cut=st.integers(1, 50), slack=st.integers(1, 30), threads=st.integers(1, 3))
def test_chunks_may_be_cut_anywhere(
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[bytes, list[tuple[int, int, str | None]]],
    cut: int,
    slack: int,
    threads: int,
) -> None:
    raw, rows = case
    path = tmp_path_factory.mktemp("text") / "edges"
    path.write_bytes(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CHUNK", cut)
        patch.setattr(lines, "_SLACK", slack)
        chunks = list(read_chunks(Split(str(path), 0, len(raw)), "float64", threads))
    assert [a for c in chunks for a in c.source.tolist()] == [a for a, _, _ in rows]
    assert [b for c in chunks for b in c.target.tolist()] == [b for _, b, _ in rows]


def test_a_line_longer_than_what_is_read_ahead(tmp_path: Path) -> None:
    path = tmp_path / "edges"
    path.write_bytes(b"1 2\n# " + b"x" * 300_000 + b"\n3 4")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        buffer, begin, end = lines_of(descriptor, 2, 100)
        assert bytes(buffer[begin:end]).startswith(b"# xxx")
        assert end == len(buffer) - 3 or bytes(buffer[begin:end]).endswith(b"x\n")
    finally:
        os.close(descriptor)
