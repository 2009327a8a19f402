"""Runs under the simulator: late and repeated messages, lost connections and lost processors."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.seeds import seed, seeds_until
from tests.support.simulated_histories import simulate_run

ENOUGH = {"late": 11, "repeated": 11, "disconnected": 11, "slow": 11, "lost": 1}


def test_answers_are_those_of_one_partition_without_faults() -> None:
    happened: Counter[str] = Counter()
    for number in seeds_until(happened, ENOUGH, 50):
        simulator = simulate_run(number)
        happened.update(simulator.faulted)
        happened["lost"] += simulator.losses


def test_the_same_seed_has_the_same_things_happen() -> None:
    first = seed()
    for number in range(first, first + 3):
        trace = simulate_run(number).trace
        assert simulate_run(number).trace == trace
        assert simulate_run(number + 1).trace != trace


def test_what_never_happens_is_said() -> None:
    happened: Counter[str] = Counter(late=7)
    with pytest.raises(
        AssertionError, match=r"{'late': 7} in 40 draws, not {'late': 7, 'lost': 1}"
    ):
        list(seeds_until(happened, {"late": 7, "lost": 1}, 2))
    assert len(list(seeds_until(happened, {"late": 7}, 2))) == 2
