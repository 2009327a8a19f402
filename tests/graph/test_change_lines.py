"""Change lines: what is read natively by the block equals what is read line by line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vertexsdk.graph.changes.change_files import parse_block
from vertexsdk.graph.changes.line import MOST_REASONS, Line, LineFormat, parse_line
from vertexsdk.graph.load.text import LINE_BYTES, LONG_LINE, MESSAGES

ID = st.one_of(
    st.integers(-3, 12).map(str),
    st.sampled_from(["#", "#1", "C#", "7#", "# 7"]),
    st.integers(-(2**63) - 1, 2**63).map(str),
    st.sampled_from(["007", "-0", "+5", "1_0", "٣", "a", "é", "x#y", '"q', "\udcff", "9" * 30]),
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=4),
)
VALUE = st.one_of(
    st.floats().map(repr),
    st.integers(-(2**64), 2**64).map(str),
    st.sampled_from(
        [".5", "5.", "+1", "1e5", "1e-400", "9e999", "1_0", "inf", "-Infinity", "nan", "x", "1e",
         "0.1234567890123456789", "123456789012345678901234567890", "1#2", "-", "0x1p3"]
    ),
)  # fmt: skip
SEPARATOR = st.sampled_from([" ", "  ", "\t", ",", " , ", "\xa0", "\x0b"])
FIELDS = st.one_of(
    st.tuples(st.sampled_from("+-~"), ID, ID),
    st.tuples(st.sampled_from("+-~"), ID, ID, VALUE),
    st.tuples(st.sampled_from("+-~"), st.integers(0, 9).map(str), st.integers(0, 9).map(str)),
    st.tuples(st.sampled_from("+-~"), ID, ID, VALUE, VALUE),
    st.lists(st.one_of(ID, VALUE, st.sampled_from(["*", "++", "#"])), max_size=3).map(tuple),
)
ENDS = st.sampled_from(["\n"] * 8 + ["\r\n", " \n", "# note\n", "\r"])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    lines = []
    for fields in draw(st.lists(FIELDS, max_size=8)):
        lines.append(draw(SEPARATOR).join(fields) + draw(ENDS))
    text = draw(st.sampled_from(["", " ", "\n"])) + "".join(lines)
    text = text if draw(st.booleans()) else text.rstrip("\n")
    return text.encode("utf-8", "surrogateescape")


def as_parsed(data: bytes, form: LineFormat) -> tuple[object, ...]:
    block = parse_block(data, "f", 7, form)
    c = block.changes
    return (
        c.kind.tolist(), c.source.to_pylist(), c.target.to_pylist(), c.value.tobytes(),
        list(c.places), block.stop.tolist(), block.time.tobytes(), block.bad.before.tolist(),
        [str(bad) for bad in block.bad.first], block.lines,
    )  # fmt: skip


def line_by_line(data: bytes, form: LineFormat) -> tuple[object, ...]:
    """What `as_parsed` must return, parsed by `parse_line` alone."""
    changes: list[Line] = []
    places, stop, before, reasons, end = [], [], [], [], 0
    lines = data.splitlines(keepends=True)
    for number, text in enumerate(lines, 7):
        end += len(text)
        try:
            if len(text.rstrip(b"\r\n")) > LINE_BYTES:
                raise ValueError(MESSAGES[LONG_LINE])
            change = parse_line(text.decode("utf-8", "surrogateescape"), form)
        except ValueError as error:
            before.append(len(changes))
            reasons.append(f"f, line {number}: {error}")
        else:
            if change is not None:
                changes.append(change)
                places.append(f"f, line {number}")
                stop.append(end)
    kind, source, target, value, time = zip(*changes, strict=True) if changes else [()] * 5
    return (
        list(kind), list(source), list(target), np.array(value, form.value or "float64").tobytes(),
        places, stop, np.array(time if form.timed else [], np.float64).tobytes(), before,
        reasons[:MOST_REASONS], len(lines),
    )  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    texts(), st.booleans(), st.sampled_from(["float64", "int64", None]),
    st.sampled_from([0, 0, 1, 3, 4, 5]),
)  # fmt: skip
def test_native_equals_line_by_line(
    data: bytes, integers: bool, value: str | None, timed: int
) -> None:
    form = LineFormat(integers, value, timed)
    assert as_parsed(data, form) == line_by_line(data, form)
    block = parse_block(data, "f", 7, form)
    assert pa.types.is_integer(block.changes.source.type) == integers
    assert block.changes.value.dtype == (value or "float64")


def test_ordinary_lines_are_read_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("read line by line")

    monkeypatch.setattr("vertexsdk.graph.changes.change_files.parse_line", refuse)
    block = parse_block(
        b"+ 1 -2\n# x\n- 1,2 7\r\n~\t1 2 0.1\n\n+ 3 4 1e-7", "f", 1, LineFormat(True)
    )
    assert block.changes.source.to_pylist() == [1, 1, 1, 3]
    assert str(block.changes.value.tolist()) == "[nan, nan, 0.1, 1e-07]"
    assert block.lines == 6
    block = parse_block(b"+ a b\n- c\td\n", "f", 1, LineFormat(False))
    assert block.changes.target.to_pylist() == ["b", "d"]
    block = parse_block(b"1082008561 + 1 2\n", "f", 1, LineFormat(True, timed=1))
    assert block.time.tolist() == [1082008561]


def test_a_place_is_said_when_asked() -> None:
    places = parse_block(b"+ 1 2\n\n+ 3 4\n- 5 6\n", "day", 10, LineFormat(True)).changes.places
    assert [*places[1:]] == ["day, line 12", "day, line 13"]
    assert np.array_equal([len(places), len(places[3:])], [3, 0])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("+ 1 2", "3 fields; field 4 should be the time"),
        ("+ 1 2 noon", "time 'noon' is not a number"),
        ("+ 1 2 nan", "time NaN is not a number"),
    ],
)
def test_bad_times(line: str, reason: str) -> None:
    block = parse_block(line.encode(), "f", 1, LineFormat(True, timed=4))
    assert [str(bad) for bad in block.bad.first] == [f"f, line 1: {reason}"]


@pytest.mark.parametrize("kind", ["float64", "int64"])
@pytest.mark.parametrize("value", ["1_000", "٣"])
def test_values_are_numbers_as_edge_files_have_them(value: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f"value '{value}' is not a number"):
        parse_line(f"+ 1 2 {value}", LineFormat(integers=True, value=kind))


@pytest.mark.parametrize("line", ["bad", "+ 1 q", "+ 1 2 x", "- 1", "~ 1 2", "+ 1 2 3 4", "+a 1 2"])
@pytest.mark.parametrize("timed", [0, 1])
def test_very_many_bad_lines_are_counted(
    monkeypatch: pytest.MonkeyPatch, line: str, timed: int
) -> None:
    line = f"7 {line}" if timed else line
    read: list[str] = []

    def count(text: str, form: LineFormat) -> Line | None:
        read.append(text)
        return parse_line(text, form)

    monkeypatch.setattr("vertexsdk.graph.changes.change_files.parse_line", count)
    block = parse_block(f"{line}\n".encode() * 50_000, "f", 1, LineFormat(True, timed=timed))
    assert (len(block.changes), len(block.bad), block.lines) == (0, 50_000, 50_000)
    assert len(block.bad.first) == len(read) == MOST_REASONS
    assert str(block.bad.first[-1]).startswith(f"f, line {MOST_REASONS}: ")


def test_bad_lines_that_are_read_line_by_line_are_counted_too() -> None:
    block = parse_block("+ é 2\n+ 1 2\n".encode() * 1000, "f", 1, LineFormat(True))
    assert (len(block.changes), len(block.bad), len(block.bad.first)) == (1000, 1000, 100)
    assert block.bad.before.tolist() == list(range(1000))


@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("line", ["{x} 1 2", "+ {x} 2", "+ 1 2 {x}", "+ {x}\0 2", "+ 1 2 3 {x}"])
def test_long_fields_in_reasons_are_cut(line: str, integers: bool) -> None:
    data = line.format(x="x" * 1_000_000).encode()
    block = parse_block(data, "f", 1, LineFormat(integers))
    assert all(len(str(bad)) < 200 for bad in block.bad.first)
    assert len(block.bad) or line == "+ {x} 2"


def test_a_line_that_is_too_long_is_bad() -> None:
    longest = "- 1 2 #".ljust(LINE_BYTES, "x").encode()
    for data in (longest + b"\n" + longest, b"- 3 4\n" + longest + b"\r\n- 5 6"):
        assert len(parse_block(data, "f", 1, LineFormat(True)).bad) == 0
    block = parse_block(b"- 3 4\n" + longest + b"x\n- 5 6\n", "f", 1, LineFormat(True))
    assert [str(bad) for bad in block.bad.first] == [
        "f, line 2: the line is longer than 1,048,576 bytes; shorten or remove it"
    ]
    assert (block.changes.source.to_pylist(), block.lines) == ([3, 5], 3)


@pytest.mark.parametrize("integers", [True, False])
def test_long_lines_among_others_and_old_line_ends(integers: bool) -> None:
    note = b"#".ljust(LINE_BYTES + 1, b"x")
    blank = b" " * (LINE_BYTES + 1)
    add = b"+ 1 2".ljust(LINE_BYTES + 1)
    for end in (b"\n", b"\r\n", b"\r"):
        for lines in ([note], [blank, b"+ 1 2"], [b"- 1 2", add, b"", b"+ 3 4", note, b"~ 3 4 5"]):
            data, form = end.join(lines), LineFormat(integers)
            assert as_parsed(data, form) == line_by_line(data, form)
            assert as_parsed(data + end, form) == line_by_line(data + end, form)


@pytest.mark.parametrize("integers", [False, True])
def test_a_comment_is_a_line_whose_first_field_begins_with_a_hash(integers: bool) -> None:
    data = b"# + 1 2\n+ Lisp C#\n\t#\n+ #a #b 2\n- Lisp C# #7\n" if not integers else b"#\n+ 1 2\n"
    block = parse_block(data, "f", 1, LineFormat(integers))
    assert not len(block.bad)
    assert block.changes.source.to_pylist() == ([1] if integers else ["Lisp", "#a", "Lisp"])
    assert block.changes.target.to_pylist() == ([2] if integers else ["C#", "#b", "C#"])
