"""Streams of files into a main loop: exactly once, bounded, and one clear error when they die."""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.loops.recording import RecordingLoop
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.errors import InputError, RunError
from vertexsdk.graph.changes import change_files
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.loops.streams.file_stream import FileStream, ReadAhead, start_stream
from vertexsdk.loops.streams.intake import StreamIntake

INTEGERS = LineFormat(integers=True)


def flow(main: RecordingLoop, stream: Any, **given: Any) -> Any:
    return start_stream(main, stream, given)


def wait_for(true: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def change_lines(rng: random.Random, count: int) -> str:
    return "".join(
        f"{rng.choice('++-')} {rng.randrange(9)} {rng.randrange(9)}\n" for _ in range(count)
    )


def test_a_loop_that_fails_anywhere_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_files, "_BLOCK", 64)
    rng = random.Random(1)
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(change_lines(rng, 100))
    whole = RecordingLoop()
    assert flow(whole, tmp_path, follow=False).awaitTermination(60)
    assert whole.taken == 300
    crash = {"at": 0}

    def before(number: int) -> None:
        if number == crash["at"]:
            raise RuntimeError("no power\nsecond line")

    main = RecordingLoop(before=before)
    for _ in range(100):
        crash["at"] = main.batches + rng.randrange(1, 9)
        stream = flow(main, str(tmp_path), follow=False)
        wait_for(lambda stream=stream: not stream.isActive)
        if stream.exception is None:
            break
        with pytest.raises(
            RunError, match=r"^the stream failed after [0-9]+ changes: no power; these"
        ):
            stream.awaitTermination(60)
    assert main.taken == 300
    assert main.edges == whole.edges
    assert crash["at"] > 20


def test_a_file_that_grows_while_it_is_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("+ 1 2\n")
    main = RecordingLoop()
    with flow(main, path) as stream:
        wait_for(lambda: main.taken == 1)
        with path.open("a") as file:
            file.write("+ 2 3\n- 1 2\n")
        wait_for(lambda: main.taken == 3)
        found = stream.progress()
        assert (found.received, found.taken_in, found.behind, found.behind_bytes) == (3, 3, 0, 0)
        assert found.running
        assert not stream.awaitTermination(0.01)
    assert main.edges == {(2, 3): 1.0}
    assert not stream.progress().running
    assert stream.awaitTermination(0)
    with path.open("a") as file:
        file.write("- 2 3\n")
    assert flow(main, [path], idle=0.01).awaitTermination(60)
    assert (main.taken, main.edges) == (4, {})


def test_memory_is_bounded_and_it_says_how_far_behind_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_files, "_BLOCK", 1 << 12)
    path = tmp_path / "c.txt"
    path.write_text("+ 1 2\n" * 40_000)
    behind = []

    def before(number: int) -> None:
        if number < 20:
            time.sleep(0.01)  # a loop that is slower than its source
        behind.append(stream.progress())

    main = RecordingLoop(before=before)
    stream = FileStream(StreamIntake(main), ChangeFiles([str(path)], INTEGERS), limit=4)
    assert stream.awaitTermination(60)
    most = (4 + 2) * ((1 << 12) // 6)  # and the batch which is taken in, and one read ahead
    assert 2000 < max(f.behind for f in behind) <= most
    assert max(f.received - f.taken_in for f in behind) <= most
    assert behind[9].behind_bytes > 100_000
    assert " behind and " in str(behind[9])
    last = stream.progress()
    assert (last.behind, last.behind_bytes, last.taken_in) == (0, 0, 40_000)
    assert last.changes_per_second > 0


def test_bad_lines_and_late_changes_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "c.txt"
    path.write_text("5 + 1 2\nx\n4 + 1 3\n3 + 1 4\n9 + 1 5\n1 + 1 6\n1 + 1 7\n")
    main = RecordingLoop()
    with caplog.at_level(logging.WARNING, "vertexsdk"):
        stream = flow(main, path, follow=False, time_column=1)
        assert stream.awaitTermination(60)
    assert (stream.progress().bad_lines, stream.progress().late) == (1, 4)
    assert (main.taken, main.bad) == (6, 1)
    assert caplog.messages[0] == f"{path}, line 2: time 'x' is not a number; skipped"
    late = [
        m for m in caplog.messages if "before that of an earlier change; applied all the same" in m
    ]
    assert len(late) == 3  # of four
    strict = RecordingLoop(strict=True)
    with pytest.raises(InputError, match="line 2: time 'x' is not a number"):
        flow(strict, path, follow=False, time_column=1).awaitTermination(60)
    assert strict.taken == 0
    path.write_text("5 + 1 2\n4 + 1 3\n")
    with pytest.raises(InputError, match="line 2: its time is before that of an earlier change"):
        flow(strict, path, follow=False, time_column=1).awaitTermination(60)


def test_a_source_that_dies(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("+ 1 2\n")
    main = RecordingLoop()
    stream = flow(main, path)
    wait_for(lambda: main.taken == 1)
    path.unlink()
    with pytest.raises(InputError, match="cannot be read at byte 6"):
        stream.awaitTermination(60)
    assert "put it back" in str(stream.exception)
    stream.stop()


def test_a_loop_that_is_closed_ends_its_streams(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("+ 1 2\n+ 2 3\n")
    graph = Graph.from_arrays([0], [1])
    with MainLoop(ConnectedComponents, graph, backend="memory://closed") as main:
        stream = main.start(tmp_path)
        wait_for(lambda: main.changes == 2)
        assert main.query().lookup([3])[3] == {"component": 0}
        assert stream.isActive
    assert stream.awaitTermination(0)
    assert stream.exception is None


@pytest.mark.parametrize(
    ("stream", "options", "said"),
    [
        ("none.txt", {}, "none.txt: no such file"),
        ("s3://bucket/x", {}, "must be on this machine"),
        (".", {"checkpointLocation": "x"}, "checkpointLocation is only for streaming DataFrames"),
        (".", {"time_column": "ts"}, "it must be a field's number"),
        (7, {}, "the DataFrame is not a streaming one"),
        (7, {"follow": True}, "follow is only for change files"),
    ],
)
def test_what_is_no_stream(stream: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        flow(RecordingLoop(), stream, **options)


def test_a_feed_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("# none\n")
    with ReadAhead(ChangeFiles([str(tmp_path)], INTEGERS)) as feed:
        assert [len(batch) for batch in feed] == [0]
