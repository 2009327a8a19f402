"""Calls from files and streaming DataFrames: each is made once, whatever is lost."""

from __future__ import annotations

import contextlib
import logging
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stateful.programs import KeyValue, Names, WordCount
from tests.support.seeds import seed
from tests.support.store_faults import KINDS, DriverKilled, NthFault
from vertexsdk import (
    InputError,
    Map,
    Partitioned,
    RunError,
    StateError,
    Stateful,
    StatefulLoop,
    StateInputError,
)
from vertexsdk.stateful import call_stream

WORDS = ["be", "to", "or", "not", "ü", ""]


@pytest.fixture(autouse=True)
def _small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_stream, "_READ", 32)
    monkeypatch.setattr(call_stream, "BLOCK", 3)


def lines(chance: random.Random, count: int) -> list[str]:
    return [" ".join(chance.choices(WORDS, k=chance.randrange(4))) for _ in range(count)]


def counted(texts: list[str]) -> list[int]:
    plain = WordCount()
    for text in texts:
        plain.add(text)
    return [plain.count(word) for word in WORDS if word]


def counts(flow: StatefulLoop) -> list[int]:
    return flow.count.map([word for word in WORDS if word])


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_lines_of_files_are_calls(tmp_path: Path, partitions: int) -> None:
    chance = random.Random(seed())
    texts = [*lines(chance, 19), "", *lines(chance, 19), "to be"]  # a last line may have no end
    first, second = "\n".join([*texts[:20], ""]), "\r\n".join(texts[20:])
    for name, text in (("0.txt", first), ("1.txt", second)):
        (tmp_path / name).write_bytes(text.encode())
    with StatefulLoop(
        WordCount, backend=f"memory://lines-{partitions}", partitions=partitions
    ) as flow:
        stream = flow.add.start(str(tmp_path / "*.txt"))
        assert stream.awaitTermination()
        assert counts(flow) == counted(texts)
        progress = stream.progress()
        assert (progress.taken_in, progress.failed, progress.bad_lines) == (40, 0, 0)
        assert str(progress).startswith("40 calls · ")
        assert flow.add.start(tmp_path).awaitTermination()  # they are taken in
        assert counts(flow) == counted(texts)


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.parquet", "rows.txt"])
def test_columns_are_parameters(tmp_path: Path, name: str) -> None:
    """In any order, with others beside them; a column without a default may not be missing."""
    rows = [(k % 5, f"n{k},") for k in range(11)]
    path = tmp_path / name
    if name.endswith(".parquet"):
        table = pa.table({"other": ["x"] * 11, "name": [n for _, n in rows], "user": [
            u for u, _ in rows]})  # fmt: skip
        pq.write_table(table, path, row_group_size=4)
    else:
        between = "\t" if name.endswith(".tsv") else ","
        cells = [("other", "name", "user"), *(("x", f'"{n}"', str(u)) for u, n in rows)]
        path.write_text("\ufeff" + "".join(between.join(row) + "\n" for row in cells))
    plain = Names()
    for user, text in rows:
        plain.set_name(user, text)
    with StatefulLoop(Names, backend=f"memory://columns-{name}", partitions=2) as flow:
        assert flow.set_name.start(path).awaitTermination()
        assert flow.name_of.map(range(5)) == [plain.name_of(k) for k in range(5)]
        assert flow.progress()["calls"] == 11
        with pytest.raises(
            InputError, match=r"there is not a column 'otherwise', which Names.take"
        ):
            flow.take.start(path).awaitTermination()


def test_what_is_not_a_call_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.csv").write_bytes(b"user,name\n1,one\nx,two\n3\n4,\xff\n5,five\n6,\n")
    table = pa.table({"user": [7, None, 9], "name": ["seven", "eight", ""]})
    pq.write_table(table, tmp_path / "b.parquet")
    with (
        caplog.at_level(logging.WARNING, "vertexsdk"),
        StatefulLoop(Names, backend="memory://not-calls") as flow,
    ):
        stream = flow.set_name.start([tmp_path / "a.csv", tmp_path / "b.parquet"])
        assert stream.awaitTermination()
        progress = stream.progress()
        assert (progress.taken_in, progress.bad_lines, progress.failed) == (5, 4, 2)
        assert "2 failed" in str(progress)
        assert flow.name_of.map([1, 3, 5, 6, 7]) == ["one", "", "five", "", "seven"]
    said = [record.getMessage() for record in caplog.records]
    assert f"{tmp_path}/a.csv, line 3: user is 'x'; it has to be an int; skipped" in said
    assert any("a name cannot be empty" in text and "changed nothing" in text for text in said)


def test_files_that_grow_are_followed(tmp_path: Path) -> None:
    texts = lines(random.Random(seed()), 30)
    path = tmp_path / "log.txt"
    path.write_text("")
    with StatefulLoop(WordCount, backend="memory://followed", partitions=2) as flow:
        stream = flow.add.start(path, follow=True)
        for k in range(3):
            with path.open("a") as file:
                file.writelines(f"{text}\n" for text in texts[10 * k : 10 * k + 10])
            stream.processAllAvailable()
            assert counts(flow) == counted(texts[: 10 * k + 10])
        assert stream.isActive
    assert not stream.isActive
    with StatefulLoop.resume(WordCount, backend="memory://followed", partitions=7) as flow:
        flow.add.start(path).awaitTermination()
        assert counts(flow) == counted(texts)


def test_what_cannot_be_fed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("be\n")
    (tmp_path / "a.txt.gz").write_text("be\n")
    with StatefulLoop(WordCount, backend="memory://not-fed") as flow:
        with pytest.raises(InputError, match=r"WordCount\.count\.start: .* count changes no state"):
            flow.count.start(tmp_path / "a.txt")
        with pytest.raises(InputError, match="no such file"):
            flow.add.start(tmp_path / "b.txt")
        with pytest.raises(InputError, match="input files are plain text; unpack it"):
            flow.add.start(tmp_path / "a.txt.gz").awaitTermination()
        with pytest.raises(InputError, match="trigger is only for streaming DataFrames"):
            flow.add.start(tmp_path / "a.txt", trigger={"once": True})
        with pytest.raises(InputError, match="not a streaming one"):
            flow.add.start(pa.table({"line": ["be"]}))


def test_two_streams_of_one_file_do_not_double_its_calls(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("be\n" * 30)
    with StatefulLoop(WordCount, backend="memory://two-streams") as flow:
        streams = [flow.add.start(path) for _ in range(3)]
        for stream in streams:
            with contextlib.suppress(InputError):
                stream.awaitTermination()
        flow.add.start(path).awaitTermination()
        assert flow.count("be") == 30


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_or_doubled_when_the_store_fails(kind: str, tmp_path: Path) -> None:
    """Each call to the store that writes fails once; who fed the loop resumes it, and goes on."""
    chance = random.Random(seed())
    texts = lines(chance, 16)
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{text}\n" for text in texts))
    for number in chance.sample(range(12), 2):
        url = f"memory://fed-{kind.replace(' ', '-')}-{number}"
        faults = NthFault(kind, number)
        flow: StatefulLoop | None = None
        with faults.installed():
            for driver in range(1, 20):
                with (
                    faults.driver(driver),
                    contextlib.suppress(StateError, RunError, DriverKilled),
                ):
                    flow = flow or open_loop(url, chance.choice([1, 2, 7]))
                    flow.add.start(path).awaitTermination()
                    break
                if flow is not None and ("killed" in kind or chance.random() < 0.5):
                    flow._end(ValueError("the driver ended"))
                    flow = None
            else:
                pytest.fail(f"{kind} {number}: the stream did not end")
            assert flow is not None
            with faults.paused(), flow:
                assert counts(flow) == counted(texts), f"{kind} {number}"


def open_loop(url: str, partitions: int) -> StatefulLoop:
    try:
        return StatefulLoop.resume(WordCount, backend=url, partitions=partitions)
    except StateInputError:
        return StatefulLoop(WordCount, backend=url, partitions=partitions, snapshot_every=7)


def test_a_stream_of_spark_is_fed_once(spark: Any, tmp_path: Path) -> None:
    inbox, kept = tmp_path / "inbox", tmp_path / "checkpoint"
    inbox.mkdir()
    options = {"checkpointLocation": str(kept), "trigger": {"availableNow": True}}
    frame = spark.readStream.schema("key bigint, value double, more string").json(str(inbox))
    for k in range(3):
        rows = [f'{{"key": {key}, "value": {k}.5}}' for key in range(k, 4)]
        (inbox / f"{k}.json").write_text("\n".join([*rows, '{"value": 1}']))
        begin = StatefulLoop.resume if k else StatefulLoop
        flow: Any = begin(KeyValue, backend="memory://fed-by-spark", partitions=2)
        stream = flow.put.start(frame, **options)
        stream.awaitTermination()
        assert (stream.progress().taken_in, stream.progress().bad_lines) == (4 - k, 1)
        assert flow.get.map(range(4)) == [min(key, k) + 0.5 for key in range(4)]
        flow._end(ValueError("the driver ended"))
    with StatefulLoop.resume(KeyValue, backend="memory://fed-by-spark") as flow:
        assert flow.progress()["calls"] == 9
        with flow.put.start(frame) as stream:  # of another checkpoint
            stream.processAllAvailable()
            assert flow.progress()["calls"] == 18
            assert stream.isActive
        with pytest.raises(InputError, match="the DataFrame: there is not a column 'key'"):
            flow.put.start(frame.drop("key"))
        with pytest.raises(InputError, match="follow is only for files"):
            flow.put.start(frame, follow=True)


class Puts(Stateful):
    counts = Partitioned(Map(str, int), key="word")

    def put(self, word: str, n: int) -> None:
        self.counts[word] += n


def test_a_quote_that_is_not_closed_is_one_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text('word,n\na,1\n"b,2\nc,3\n"d,",4\ne,1_0\n"f\ng",1')
    with StatefulLoop(Puts, backend="memory://quote", partitions=2, replace=True) as flow:
        stream = flow.put.start(path)
        assert stream.awaitTermination()
        assert (stream.progress().taken_in, stream.progress().bad_lines) == (4, 3)
        assert list(flow.lookup(["a", "b", "c", "d,", "e", "f\ng"])) == ["a", "c", "d,"]


def test_a_file_that_is_given_twice_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text("be\n")
    with StatefulLoop(WordCount, backend="memory://twice", partitions=2, replace=True) as flow:
        for source in (["t.txt", "./t.txt", str(tmp_path)], "t.txt"):
            assert flow.add.start(source).awaitTermination()
        assert flow.count("be") == 1


def test_a_source_of_another_kind_is_refused(tmp_path: Path) -> None:
    Path(tmp_path / "twice.csv").write_text("word,n,word\na,1,b\n")
    Path(tmp_path / "t.txt").write_text("be\n")
    with StatefulLoop(WordCount, backend="memory://kind", partitions=1, replace=True) as flow:
        for source, shown in (
            (5, "5"),
            (None, "None"),
            ([1], "1"),
            (b"t.txt", "b't.txt'"),
            ([], "[]"),
        ):
            with pytest.raises(InputError) as error:
                flow.add.start(source)
            assert str(error.value).startswith(f"{shown} is not a path: give a path or a glob")
        with pytest.raises(InputError, match="no such file; name an input file, a directory"):
            flow.add.start(tmp_path / "none.txt")
        with pytest.raises(InputError, match="idle is only for files that are followed"):
            flow.add.start(tmp_path / "t.txt", idle=1.0)
    with StatefulLoop(Puts, backend="memory://twice", partitions=1, replace=True) as flow:  # noqa: SIM117
        with pytest.raises(InputError, match="several columns 'word', which"):
            flow.put.start(tmp_path / "twice.csv").awaitTermination()
