"""Runs under the simulator: late and repeated messages, lost connections and lost processors."""

from __future__ import annotations

from collections import Counter

from tests.support.seeds import seed
from tests.support.simulated_histories import simulate_run


def test_answers_are_those_of_one_partition_without_faults() -> None:
    first = seed()
    faulted: Counter[str] = Counter()
    losses = 0
    for number in range(first, first + 50):
        simulator = simulate_run(number)
        faulted.update(simulator.faulted)
        losses += simulator.losses
    assert all(faulted[kind] > 10 for kind in ("late", "repeated", "disconnected", "slow"))
    assert losses > 0


def test_the_same_seed_has_the_same_things_happen() -> None:
    first = seed()
    for number in range(first, first + 3):
        trace = simulate_run(number).trace
        assert simulate_run(number).trace == trace
        assert simulate_run(number + 1).trace != trace
