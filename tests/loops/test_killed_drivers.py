"""What a loop needs is killed: nothing is lost or doubled, and it serves again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

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
