"""Change files as a source: in order, with offsets, followed while they grow."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vertexsdk.errors import InputError
from vertexsdk.graph.changes import change_files
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.load.text import LINE_BYTES

INTEGERS = LineFormat(integers=True)
Rows = list[tuple[int, int]]


def rows(batch: ChangeBatch) -> Rows:
    return list(
        zip(batch.changes.source.to_pylist(), batch.changes.target.to_pylist(), strict=True)
    )


def read(*paths: Path, form: LineFormat = INTEGERS, **options: Any) -> list[ChangeBatch]:
    return list(ChangeFiles([str(p) for p in paths], form, **options))


def wait_for(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_files_in_order(tmp_path: Path) -> None:
    for name, target in (("b.txt", 2), ("a.txt", 1), (".hidden", 3)):
        (tmp_path / name).write_text(f"+ 0 {target}\n")
    a, b = read(tmp_path)
    assert rows(a) + rows(b) == [(0, 1), (0, 2)]
    assert (a.source, a.offset) == (str(tmp_path / "a.txt"), 6)
    assert [rows(x) for x in read(tmp_path / "b.txt", tmp_path / "a.txt")] == [[(0, 2)], [(0, 1)]]
    assert len(read(Path(f"{tmp_path}/*.txt"))) == 2
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none")
    (tmp_path / "c.gz").write_text("")
    with pytest.raises(InputError, match=r"c\.gz: change files are plain text; unpack it"):
        read(tmp_path / "c.gz")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.sampled_from(["+ 1 2", "- 34 5", "bad", "", "# c", "~ 1 2 3\r"]), max_size=30),
    st.integers(1, 5), st.integers(5, 90), st.booleans(),
)  # fmt: skip
def test_from_every_offset_the_rest_is_read(
    tmp_path: Path, lines: list[str], at_once: int, block: int, ended: bool
) -> None:
    path = tmp_path / "c.txt"
    path.write_bytes(("\ufeff" + "\n".join(lines) + "\n" * ended).encode())
    before = change_files._BLOCK
    change_files._BLOCK = block
    try:
        batches = read(path, at_once=at_once)
        whole = [r for b in batches for r in rows(b)]
        bad = [str(x) for b in batches for x in b.bad.first]
        assert len(whole) == sum(line[:1] in ("+", "-", "~") for line in lines)
        assert bad == [
            f"{path}, line {k}: 'bad' is not a sign of a change; a line begins with +, - or ~"
            for k, line in enumerate(lines, 1) if line == "bad"
        ]  # fmt: skip
        assert all(len(b) <= at_once for b in batches)
        for k, batch in enumerate(batches):
            rest = read(path, after={batch.source: batch.offset}, at_once=3)
            assert [r for b in batches[: k + 1] + rest for r in rows(b)] == whole
            assert [str(x) for b in batches[: k + 1] + rest for x in b.bad.first] == bad
    finally:
        change_files._BLOCK = before


def test_a_batch_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("+ 1 2 9\nbad\n+ 3 4 8\n+ 5 6 10\nworse\n")
    [batch] = read(path, form=LineFormat(True, timed=4))
    assert batch.late.tolist() == [1]
    first, rest = batch.cut(1)
    assert (rows(first), first.offset, len(first.bad), len(first.late)) == ([(1, 2)], 8, 0, 0)
    assert (rows(rest), rest.offset) == ([(3, 4), (5, 6)], path.stat().st_size)
    assert rest.bad.before.tolist() == [0, 2]
    assert rest.late.tolist() == [0]
    assert rest.changes.places[0].endswith("line 3")


def test_a_file_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("+ 1 2\n+ 3")
    source = ChangeFiles([str(path)], INTEGERS, follow=True)
    source.poll = 0.01
    got: Rows = []
    thread = threading.Thread(target=lambda: got.extend(r for b in source for r in rows(b)))
    thread.start()
    try:
        wait_for(lambda: source.behind_bytes == 3)  # a line that has no end yet
        with path.open("a") as file:
            file.write(" 4\n- 5 6\n")
        wait_for(lambda: source.behind_bytes == 0)
    finally:
        source.stop()
        thread.join(10)
    assert got == [(1, 2), (3, 4), (5, 6)]


def test_idle_ends_it_with_the_last_line(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("+ 1 2\n+ 3 4")
    batches = read(tmp_path / "c.txt", follow=True, idle=0.05)
    assert [rows(b) for b in batches] == [[(1, 2)], [(3, 4)]]


def test_files_moved_into_a_directory(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    source = ChangeFiles([str(inbox)], INTEGERS, follow=True)
    source.poll = 0.01
    got: list[ChangeBatch] = []
    thread = threading.Thread(target=lambda: got.extend(source))
    thread.start()
    try:
        for k in range(3):
            (tmp_path / "new").write_text(f"+ {k} {k}")
            (tmp_path / "new").rename(inbox / f"{9 - k}.txt")
            wait_for(lambda k=k: len(got) == k + 1)  # type: ignore[misc]
    finally:
        source.stop()
        thread.join(10)
    assert [r for b in got for r in rows(b)] == [(0, 0), (1, 1), (2, 2)]
    after = {b.source: b.offset for b in got}
    assert read(inbox, after=after) == []
    (inbox / "8.txt").write_text("+ 1 17\n")
    with pytest.raises(InputError, match=r"8\.txt: grew within its last line, which was taken in"):
        read(inbox, after=after)


def test_a_file_that_shrinks_or_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("+ 1 2\n")
    with pytest.raises(InputError, match="has 6 bytes, of which 60 were taken in"):
        read(path, after={str(path): 60})
    source = iter(ChangeFiles([str(path)], INTEGERS, follow=True))
    next(source)
    path.unlink()
    with pytest.raises(InputError, match=r"cannot be read at byte 6 .*put it back"):
        next(source)


def test_times_that_run_backwards_over_files(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("5 + 1 2\n7 + 1 3\n7 + 1 4\n6 + 1 5\n")
    (tmp_path / "2").write_text("6.5 + 1 6\n8 + 1 7\n")
    first, second = read(tmp_path, form=LineFormat(True, timed=1))
    assert (first.late.tolist(), second.late.tolist()) == ([3], [0])
    assert len(first) + len(second) == 6


@pytest.mark.parametrize("size", [LINE_BYTES + 1, 3 * change_files._BLOCK, 50_000_000])
def test_a_line_that_is_too_long_is_left_out(tmp_path: Path, size: int) -> None:
    path = tmp_path / "c.txt"
    path.write_bytes(b"+ 1 2\n" + b"x" * size + b"\n+ 3 4\n")
    tracemalloc.start()
    batches = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [r for b in batches for r in rows(b)] == [(1, 2), (3, 4)]
    bad = [str(x) for b in batches for x in b.bad.first]
    assert bad == [f"{path}, line 2: the line is longer than 1,048,576 bytes; shorten or remove it"]
    assert batches[-1].changes.places[-1].endswith("line 3")
    assert batches[-1].offset == path.stat().st_size
    assert peak < 10 * change_files._BLOCK
    for k, batch in enumerate(batches):
        rest = read(path, after={batch.source: batch.offset})
        assert [r for b in batches[: k + 1] + rest for r in rows(b)] == [(1, 2), (3, 4)]


def test_a_line_that_grows_too_long(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_bytes(b"+ 1 2\n" + b"x" * 2 * change_files._BLOCK)
    source = ChangeFiles([str(path)], INTEGERS, follow=True)
    source.poll = 0.01
    got: list[ChangeBatch] = []
    thread = threading.Thread(target=lambda: got.extend(source))
    thread.start()
    try:
        wait_for(lambda: len(got) == 1)
        for more in (b"x" * change_files._BLOCK, b"x\n+ 3 4\n"):
            with path.open("ab") as file:
                file.write(more)
            time.sleep(0.05)
        wait_for(lambda: source.behind_bytes == 0)
    finally:
        source.stop()
        thread.join(10)
    assert [r for b in got for r in rows(b)] == [(1, 2), (3, 4)]
    assert sum(len(b.bad) for b in got) == 1
    path.write_bytes(b"+ 1 2\n" + b"x" * 2 * change_files._BLOCK)
    assert [(len(b), len(b.bad)) for b in read(path)] == [(1, 0), (0, 1)]


def test_lines_ended_by_carriage_returns_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_bytes(b"+ 1 2\r" * 1_500_000)
    batches = read(path)
    assert (sum(map(len, batches)), sum(len(b.bad) for b in batches)) == (1_500_000, 0)
    assert batches[-1].changes.places[-1].endswith("line 1500000")


def test_very_many_bad_lines_in_batches_that_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("bad\n+ 1 2\nworse\n" * 1000)
    batches = read(path, at_once=7)
    assert sum(len(b.bad) for b in batches) == 2000
    assert sum(len(b.bad.first) for b in batches) == 100
    rest = read(path, after={batches[9].source: batches[9].offset})
    assert sum(len(b.bad) for b in [*batches[:10], *rest]) == 2000
