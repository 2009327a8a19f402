"""Calls of a stateful class: bulk input of every form, many callers at once, and what they are
told."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.stateful import programs
from tests.stateful.programs import KeyValue, Names, Visits, WordCount
from vertexsdk import CallError, InputError, Map, Partitioned, Stateful, StatefulLoop
from vertexsdk.engine.keyed.keyed_engine import KeyedEngine
from vertexsdk.errors import LostError
from vertexsdk.state import open_store

LINES = Path(programs.__file__).read_text().splitlines()


def line_of(text: str) -> int:
    return 1 + next(k for k, line in enumerate(LINES) if text in line)


@pytest.mark.parametrize(
    "given",
    [
        (pa.table({"value": [0.5, 1.5], "key": [1, 2], "more": ["a", "b"]}),),
        (pa.record_batch({"key": [1, 2], "value": [0.5, 1.5]}),),
        (pd.DataFrame({"key": [1, 2], "value": [0.5, 1.5]}),),
        ([(1, 0.5), (2, 1.5)],),
        (iter([1, 2]), iter([0.5, 1.5])),
        (np.array([1, 2], np.uint8), np.array([0.5, 1.5], np.float32)),
        (np.array([1, 2], np.uint64), [np.float64(0.5), 1.5]),
        (pa.array([1, 2], pa.int32()), pa.chunked_array([[0.5], [1.5]])),
        (pd.Series([1, 2]), pd.Series([0.5, 1.5])),
        (range(1, 3), (0.5, 1.5)),
    ],
    ids=lambda given: " ".join(type(one).__name__ for one in given),
)
def test_every_form_of_input(given: tuple[Any, ...]) -> None:
    with StatefulLoop(KeyValue, backend="memory://forms", partitions=2, replace=True) as flow:
        assert flow.put.map(*given) == [None, None]
        assert flow.get.map([2, 1, 0]) == [1.5, 0.5, 0.0]


@pytest.mark.parametrize(
    "words",
    [
        np.array(["be", "ä"]), np.array(["be", "ä"], object), pa.array(["be", "ä"]),
        pa.chunked_array([["be"], ["ä"]]), pa.array(["x", "be", "ä"])[1:],
        pa.array(["be", "ä"]).dictionary_encode(), pd.Series(["be", "ä"]),
        pa.table({"word": ["be", "ä"]}), (word for word in ("be", "ä")),
    ],
    ids=lambda words: f"{type(words).__name__} {getattr(words, 'dtype', '')}",
)  # fmt: skip
def test_every_form_of_strings(words: Any) -> None:
    with StatefulLoop(WordCount, backend="memory://words", replace=True) as flow:
        flow.add("be ä ä")
        assert flow.count.map(words) == [1, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([1], [1.0], [2]), "takes the values of key, value, one argument for each, or a table"),
        (([1, 2], [1.0]), "different numbers of values"),
        ((pa.table({"key": [1]}),), "no column 'value'; it has key"),
        (([1, 2],), "each item has to be a tuple of 2 values"),
        ((["a"], [1.0]), "put, parameter key: 'a' is not an int"),
        ((np.array([0.5]), [1.0]), "parameter key: 0.5 is not an int"),
        ((np.array([1 << 63], np.uint64), [1.0]), "does not fit into 64 bits"),
        ((pa.array([1, None]), [1.0, 2.0]), "there are nulls"),
        (("ab", [1.0]), "str is one value"),
        ((np.zeros((2, 2), int), [1.0, 2.0]), "an array of one dimension"),
        ((5, [1.0]), "give a list"),
    ],
)
def test_bulk_input_that_does_not_fit_is_refused(given: Any, message: str) -> None:
    with StatefulLoop(KeyValue, backend="memory://unfit", replace=True) as flow:
        with pytest.raises(InputError, match=message):
            flow.put.map(*given)
        assert flow.progress()["calls"] == 0


def test_defaults_fill_columns_that_are_left_out() -> None:
    with StatefulLoop(Names, backend="memory://defaults", replace=True) as flow:
        flow.set_name.map([1, 2], ["a", "b"])
        assert flow.set_name.map(pa.table({"user": [1], "name": ["c"]})) == ["a"]
        assert flow.set_name(user=1, name="d", keep=True) == "c"


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_callers_are_told_the_line_and_the_rest_goes_on(partitions: int) -> None:
    with StatefulLoop(Names, backend="memory://lines", partitions=partitions, replace=True) as flow:
        at = f"{programs.__file__}:{line_of('a name cannot be empty')}: Names.set_name: ValueError"
        with pytest.raises(CallError) as one:
            flow.set_name(1, "")
        assert str(one.value) == f"{at}: a name cannot be empty"
        assert one.value.user_frames[-1][2] == "set_name"
        with pytest.raises(CallError) as several:
            flow.set_name.map([1, 2, 1, 3], ["a", "", "", "c"])
        assert str(several.value) == f"{at}: a name cannot be empty (and 1 more of 4 calls)"
        assert flow.name_of.map([1, 2, 3]) == ["a", "", "c"]
        with pytest.raises(InputError, match=r"set_name\(\), parameter user: 'x' is not an int"):
            flow.set_name("x", "y")
        with pytest.raises(AttributeError, match="its methods are set_name, forget"):
            _ = flow.renamed


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_items_that_raise_take_their_call_back_everywhere(partitions: int) -> None:
    """Also where hundreds do, one after the other."""
    plain = Visits()
    lines = [f"a{k % 5},b{k % 7},c{k % 3}" for k in range(400)]
    with StatefulLoop(
        Visits, backend="memory://items", partitions=partitions, replace=True
    ) as flow:
        for target in (plain, flow):
            target.block("b3")
            target.block("c1")
        answers = flow.seen.map(lines, np.arange(400.0), return_exceptions=True)
        for k, line in enumerate(lines):
            raised = False
            try:
                plain.seen(line, float(k))
            except PermissionError as error:
                raised = str(error) in str(answers[k])
            assert raised == isinstance(answers[k], CallError), line
        rows = flow.lookup([*plain.users])
        assert rows == {key: row._asdict() for key, row in plain.users.items()}


@pytest.mark.parametrize("partitions", [1, 2])
def test_rows_inside_of_an_answer_are_those_of_its_call(partitions: int) -> None:
    with StatefulLoop(
        Visits, backend="memory://inside", partitions=partitions, replace=True
    ) as flow:
        flow.visit.map(["a", "b", "b"], [1.0, 2.0, 3.0])
        rows = [(user, row.count, row.last) for user, row in flow.named.map(["a", "b", "c"])]
        assert rows == [("a", 1, 1.0), ("b", 2, 3.0), ("c", 0, 0.0)]
        with flow._lock:  # one block
            futures = [flow.named.submit("a"), flow.seen.submit("a,d", 4.0), flow.named.submit("b")]
        assert [futures[k].result()[1].last for k in (0, 2)] == [1.0, 3.0]


class Unreadable(Exception):
    """Its text cannot be made, and its pickle not be read."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one)

    def __str__(self) -> str:
        return self.text  # type: ignore[attr-defined,no-any-return]


class Awkward(Stateful):
    counts = Partitioned(Map(int, int), key="key")

    def raises(self, key: int) -> None:
        self.counts[key] += 1
        raise Unreadable(1, 2)

    def returns(self, key: int, what: str):
        self.counts[key] += 1
        if what == "function":
            return lambda: key
        return Unreadable(1, 2) if what == "error" else what


@pytest.mark.parametrize("partitions", [1, 2])
def test_errors_without_a_text_and_answers_that_cannot_be_read(partitions: int) -> None:
    """They concern their calls alone, now and when the log is repeated."""
    flow = StatefulLoop(Awkward, backend="memory://awkward", partitions=partitions, replace=True)
    with pytest.raises(CallError, match=r"Awkward.raises: Unreadable$"):
        flow.raises(1)
    answers = flow.returns.map([1, 2, 3], ["a", "error", "function"], return_exceptions=True)
    assert answers[0] == "a"
    assert "an answer of type Unreadable cannot be unpickled" in str(answers[1])
    assert answers[2]() == 3
    flow._end(ValueError("the driver ended"))
    with StatefulLoop.resume(Awkward, backend="memory://awkward") as flow:
        assert {key: row["value"] for key, row in flow.lookup([1, 2, 3]).items()} == dict.fromkeys(
            [1, 2, 3], 1
        )


def test_many_callers_at_once() -> None:
    with StatefulLoop(WordCount, backend="memory://callers", partitions=2, replace=True) as flow:
        futures: list[Future[Any]] = []

        def call(number: int) -> None:
            for k in range(30):
                if k % 3:
                    flow.add(f"be w{number}")
                else:
                    futures.append(flow.add.submit(f"be w{number}"))

        threads = [threading.Thread(target=call, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {future.result() for future in futures} == {None}
        assert flow.count("be") == 180
        assert flow.count.map([f"w{k}" for k in range(6)]) == [30] * 6


def test_long_logs_are_joined_and_repeated() -> None:
    flow = StatefulLoop(WordCount, backend="memory://long-log", partitions=2, replace=True)
    for k in range(200):
        flow.add(f"be w{k % 3}")
    refs = flow._history._refs(flow._history.manifest)
    assert len(refs) < 80
    assert len(flow._store.versions("WordCount")) < 130
    flow._end(ValueError("the driver ended"))
    with StatefulLoop.resume(WordCount, backend="memory://long-log", partitions=7) as flow:
        assert flow.progress()["calls_since_snapshot"] == 200
        assert flow.count.map(["be", "w0", "w2"]) == [200, 67, 66]
        flow.snapshot()
        assert flow.progress()["calls_since_snapshot"] == 0
        assert not flow._history._refs(flow._history.manifest)


def test_a_loop_that_was_compacted_goes_on_after_a_loss() -> None:
    url = "memory://compacted-calls"
    with StatefulLoop(WordCount, backend=url, partitions=2, replace=True) as flow:
        for words in ("to be", "or not", "to be"):
            flow.add(words)
            flow.snapshot()
        flow.add("to")
        with open_store(url) as store:
            store.compact("WordCount")
            store.prune("WordCount")
            store.collect(0, alone=True)
        engine = flow._engine
        assert engine is not None
        engine.close()
        flow._engine = None  # as after a processor was lost
        assert flow.count.map(["to", "be", "not", "that"]) == [3, 2, 1, 0]


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_snapshot_has_the_rows_that_changed(partitions: int) -> None:
    with StatefulLoop(
        KeyValue, backend="memory://changed", partitions=partitions, replace=True
    ) as flow:
        flow.put.map(range(1000), np.ones(1000))
        flow.snapshot()
        assert flow.get.map(range(1200)) == [1.0] * 1000 + [0.0] * 200
        engine = flow._engine
        assert engine is not None
        parts = engine.snapshot(flow._history.manifest.iteration + 1, whole=False, waits=True)
        assert [part.segments for part in parts or ()] == [[]] * partitions
        flow.put.map([5, 2000], [2.0, 2.0])
        flow.snapshot()
        deltas = [ref for ref in flow._history.state() if ref.kind == "delta"]
        assert sum(ref.rows for ref in deltas) == 2
        assert flow.lookup([5, 6, 1100, 2000]) == {
            5: {"value": 2.0}, 6: {"value": 1.0}, 2000: {"value": 2.0},
        }  # fmt: skip


def test_arrays_may_be_changed_after_a_call() -> None:
    """Small blocks are written again when they are joined, as they were when they were called."""
    flow = StatefulLoop(KeyValue, backend="memory://changed-arrays", replace=True)
    keys, values = np.zeros(1, np.int64), np.zeros(1)
    for k in range(70):
        keys[0], values[0] = k, k
        flow.put.map(keys, values)
    flow._end(ValueError("the driver ended"))
    with StatefulLoop.resume(KeyValue, backend="memory://changed-arrays") as flow:
        assert flow.get.map(range(70)) == list(range(70))


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_lost_processor_loses_no_call(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with StatefulLoop(
        WordCount, backend="memory://lost", partitions=partitions, replace=True
    ) as flow:
        flow.add("to be")
        flow.snapshot()
        flow.add("or not to be")
        run, losses = KeyedEngine.run, [1, 1]

        def losing(self: KeyedEngine, calls: Any) -> Any:
            answers = run(self, calls)
            if losses and len(calls) == 2:
                losses.pop()
                raise LostError("a processor was lost")
            return answers

        monkeypatch.setattr(KeyedEngine, "run", losing)
        assert flow.add.map(["be", "be"]) == [None, None]
        assert not losses
        assert flow.count.map(["be", "to"]) == [4, 2]


def test_a_closed_loop_says_so() -> None:
    flow = StatefulLoop(KeyValue, backend="memory://closed", replace=True)
    futures = [flow.put.submit(k, 1.0) for k in range(20)]
    flow.close()
    flow.close()
    assert {future.result() for future in futures} == {None}
    for call in (lambda: flow.get(1), lambda: flow.get.map([1]), lambda: flow.lookup(1)):
        with pytest.raises(InputError, match="was closed; resume it"):
            call()
    with pytest.raises(InputError, match="was closed; resume it"):
        flow.get.submit(1)
    with StatefulLoop.resume(KeyValue, backend="memory://closed") as flow:
        assert flow.get.map(range(20)) == [1.0] * 20


def test_a_cancelled_call_is_not_made_and_does_not_keep_the_loop_open() -> None:
    flow = StatefulLoop(KeyValue, backend="memory://cancelled", replace=True)
    with flow._lock:  # until then, nothing runs
        first, second = flow.put.submit(1, 1.0), flow.put.submit(2, 2.0)
        assert first.cancel()
    assert second.result() is None
    with flow._lock:
        assert flow.put.submit(3, 3.0).cancel()
        flow._end(ValueError("the driver ended"))
    with StatefulLoop.resume(KeyValue, backend="memory://cancelled") as flow:
        assert flow.get.map([1, 2, 3]) == [0.0, 2.0, 0.0]


def test_a_second_driver_takes_the_loop_over() -> None:
    first = StatefulLoop(KeyValue, backend="memory://second", replace=True)
    first.put(1, 1.0)
    with StatefulLoop.resume(KeyValue, backend="memory://second") as second:
        with pytest.raises(Exception, match="another driver took over loop 'KeyValue'"):
            first.put(2, 2.0)
        second.put(3, 3.0)
        assert second.get.map([1, 2, 3]) == [1.0, 0.0, 3.0]
        with pytest.raises(Exception, match="another driver took over loop 'KeyValue'"):
            first.get(1)
        first.close()


def test_a_log_is_repeated_by_the_methods_that_it_was_written_with() -> None:
    class Other(KeyValue):
        def put(self, value: float, key: int) -> None:
            self.values[key] = value

    Other.__name__ = "KeyValue"
    first = StatefulLoop(KeyValue, backend="memory://other-order", replace=True)
    first.put(1, 2.0)
    first._end(ValueError("the driver ended"))
    with pytest.raises(InputError, match=r"had the methods put\(key: int, value: float\), get"):
        StatefulLoop.resume(Other, backend="memory://other-order")
    StatefulLoop.resume(KeyValue, backend="memory://other-order").close()
    with StatefulLoop.resume(Other, backend="memory://other-order") as flow:
        assert flow.get(1) == 2.0
