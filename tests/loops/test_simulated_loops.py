"""Main loops and branches under the simulator: every answer is right, whatever is lost."""

from __future__ import annotations

from collections import Counter

from tests.support.seeds import draws, seed, seeds_until
from tests.support.simulated_histories import simulate_loop

ENOUGH = {name: draws(4, 11) for name in ("late", "repeated", "disconnected", "slow")}
ENOUGH["lost"] = 1


def test_answers_are_those_of_one_partition_without_faults() -> None:
    happened: Counter[str] = Counter()
    for number in seeds_until(happened, ENOUGH, draws(3, 8)):
        simulator = simulate_loop(number, f"memory://simulated-{number}")
        happened.update(simulator.faulted)
        happened["lost"] += simulator.losses


def test_the_same_seed_has_the_same_things_happen() -> None:
    number = seed()
    traces = [simulate_loop(number, f"memory://same-{number}-{k}").trace for k in (1, 2)]
    assert traces[0] == traces[1]


def test_histories_of_edges_with_a_single_attribute() -> None:
    first = seed()
    for number in range(first, first + draws(1, 3)):
        simulate_loop(number, f"memory://attribute-{number}", names=["lengths"])
