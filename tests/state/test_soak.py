"""The soak finds nothing in a few kills; and it does find a version that is wrong, or lost."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.support.soak import soak
from tests.support.soak_runs import check, soak_runs
from vertexsdk.state import open_store

pytestmark = pytest.mark.full  # kills processes


def test_a_few_kills(tmp_path: Path) -> None:
    said = soak(f"lmdb://{tmp_path}/store", None, 3, random.Random(1))
    assert "none lost, none wrong" in said


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_few_kills_during_runs(tmp_path: Path) -> None:
    said = soak_runs(f"lmdb://{tmp_path}/store", None, 2, random.Random(2), "local[2]")
    assert said.startswith("2 kills during runs")
    assert "none lost, none wrong" in said


def test_what_is_lost_or_wrong_is_found(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    with open_store(url) as store:
        for at in (1, 2):
            columns = {"id": np.arange(3), "value": np.full(3, at)}
            ref = store.put_segment("run-1-0", 0, at, "base", columns)
            store.commit("run-1-0", iteration=at, segments=[ref], parent=store.head("run-1-0"))
    expected = {at: dict.fromkeys(range(3), at) for at in (1, 2, 3)}
    lines = ["begin run-1-0", "commit run-1-0 1", "commit run-1-0 2"]
    assert check(url, "run-1-0", lines, expected) == 2
    assert check(url, "run-1-0", lines[:2], expected) == 1  # one was not written down yet
    with pytest.raises(AssertionError, match=r"\[3\] were acknowledged"):
        check(url, "run-1-0", [*lines, "commit run-1-0 3"], expected)
    with pytest.raises(AssertionError, match="version 2 is wrong"):
        check(url, "run-1-0", lines, {**expected, 2: expected[1]})
