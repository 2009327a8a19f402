"""Main loops whose store, processors and driver fail: what was acknowledged is there, once."""

from __future__ import annotations

from collections import Counter

from tests.support.seeds import draws, seed, seeds_until
from tests.support.simulated_stores import StoreHistory, simulate_store
from tests.support.store_sessions import simulate_session


def test_histories_of_main_loops() -> None:
    happened: Counter[str] = Counter()
    for number in seeds_until(happened, {"fault": draws(3, 6)}, draws(3, 6)):
        print(number)
        happened["fault"] += len(simulate_store(number, "memory://simulated-stores").faults.fired)


def test_sessions_of_a_store() -> None:
    happened: Counter[str] = Counter()
    for number in seeds_until(happened, {"fault": draws(8, 21)}, draws(8, 25)):
        print(number)
        happened["fault"] += len(simulate_session(number, "memory://simulated-sessions").fired)


def test_the_same_seed_has_the_same_things_happen() -> None:
    number = seed()
    traces = []
    for _ in range(2):
        history = StoreHistory(number, "memory://same-store")
        traces.append(history.run().simulator.trace)
    assert traces[0] == traces[1]
