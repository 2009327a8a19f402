"""What a loop needs is killed: nothing is lost or doubled, and it serves again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from tests.stateful.histories import plain_answer, state_of
from tests.support.call_record import CallRecord
from tests.support.killed_calls import PROGRAMS, Sales, packed
from tests.support.killed_driver import batch
from tests.support.seeds import seed
from tests.support.servers import PostgresServer, RedisServer
from tests.support.soak_kills import StreamRecord, check_answer, soak_kills

pytestmark = pytest.mark.full  # kills processes


@pytest.mark.parametrize("program", ["main", "stateful"])
def test_drivers(program: Literal["main", "stateful"], tmp_path: Path) -> None:
    chance, url = random.Random(seed()), f"lmdb://{tmp_path}/state"
    kills = soak_kills(url, None, 2, chance, program=program)
    assert len(kills.seconds["driver"]) == 2


@pytest.mark.parametrize("program", ["main", "stateful"])
@pytest.mark.parametrize("kind", [RedisServer, PostgresServer])
def test_servers_and_drivers(
    kind: type[RedisServer] | type[PostgresServer], program: Literal["main", "stateful"]
) -> None:
    chance, kinds = random.Random(seed()), ["server", "driver"]
    with kind() as server:
        kills = soak_kills(server.url(), server, 2, chance, program=program, kinds=kinds)
    assert kills.number == 2


@pytest.mark.cluster
@pytest.mark.parametrize("program", ["main", "stateful"])
def test_executors(program: Literal["main", "stateful"], tmp_path: Path) -> None:
    """Without its executor a loop has too few slots for its processors: it waits for another."""
    chance, master = random.Random(seed()), "local-cluster[2,2,1024]"
    url = f"lmdb://{tmp_path}/state"
    kills = soak_kills(url, None, 1, chance, program=program, master=master, kinds=["executor"])
    assert kills.number == 1


def test_a_wrong_answer_is_seen() -> None:
    right = {"id": np.array([0, 1]), "length": np.array([0.0, 2.0])}
    check_answer("sssp", {(0, 1): 2.0}, right)
    with pytest.raises(AssertionError, match="sssp"):
        check_answer("sssp", {(0, 1): 1.0}, right)


def test_a_lost_or_doubled_batch_is_seen() -> None:
    stream = StreamRecord("wcc")
    stream.acknowledged(0)
    stream.resumed(1, len(batch(0)) + len(batch(1)))  # it was not said any more
    with pytest.raises(AssertionError, match="batch 1 was acknowledged, the loop has 0"):
        stream.resumed(0, len(batch(0)))
    with pytest.raises(AssertionError, match="the loop has 3"):
        stream.resumed(3, 0)
    with pytest.raises(AssertionError, match="changes, not"):
        stream.resumed(1, len(batch(0)) + 2 * len(batch(1)))


class Calls:
    """A record, and a plain object that makes the calls of a loop."""

    def __init__(self, place: Path) -> None:
        self.record, self.plain = CallRecord("Sales", place), Sales()
        self.record.sent(0, 20, "submit")
        self.record.acknowledged(self.make(*range(20)))

    def make(self, *numbers: int) -> list[Any]:
        calls = [PROGRAMS["Sales"].call(number) for number in numbers]
        return [(plain_answer(self.plain, name, arguments),) for name, arguments in calls]

    def resumed(self, calls: int) -> None:
        self.record.resumed(calls, {}, state_of(self.plain))


def test_a_lost_or_doubled_call_is_seen(tmp_path: Path) -> None:
    calls = Calls(tmp_path)
    calls.record.sent(20, 4, "submit")
    calls.make(20, 21)
    for number in (19, 25):
        with pytest.raises(AssertionError, match=f"20 calls were acknowledged.* has {number}"):
            calls.resumed(number)
    for number in (20, 21, 23):
        with pytest.raises(AssertionError, match=r"\] is .*, not"):
            calls.resumed(number)
    calls.resumed(22)
    calls.record.sent(24, 3, "map")
    calls.make(24)
    with pytest.raises(AssertionError, match="1 of a bulk call"):
        calls.resumed(23)
    with pytest.raises(AssertionError, match="call 27 while others are open"):
        calls.record.sent(27, 1, "single")


def test_calls_that_failed_are_those_that_the_state_shows(tmp_path: Path) -> None:
    calls = Calls(tmp_path)
    calls.record.sent(20, 4, "submit")
    calls.make(21)
    outcomes = [None, None, *calls.make(22), None]
    calls.record.take("uncertain", [packed(*outcomes)])
    calls.resumed(22)
    calls.record.sent(24, 1, "single")
    with pytest.raises(AssertionError, match="answered 'other', not"):
        calls.record.acknowledged([("other",)])


def test_a_lost_or_doubled_line_is_seen(tmp_path: Path) -> None:
    calls = Calls(tmp_path)
    file = PROGRAMS["Sales"].files(tmp_path)[0]
    file.write_text("page1 page2\npage1\n")
    calls.plain.visit("page1 page2")
    state = state_of(calls.plain)
    first = {f"visit {file}": len("page1 page2\n")}
    with pytest.raises(AssertionError, match="22 calls, not 20"):
        calls.record.answered((23, first, state), [])
    calls.record.answered((21, first, state), [])
    with pytest.raises(AssertionError, match="was taken in up to 12, the loop has 0"):
        calls.record.answered((21, {}, state), [])
    with pytest.raises(AssertionError, match=r"lines\[0\] is .*, not"):
        calls.record.answered((22, {f"visit {file}": file.stat().st_size}, state), [])
