"""Random runs of the protocol, in any order, with duplicates, over graphs that change meanwhile.

Every step is checked by `tests.support.protocol_world`. More: `./dev soak protocol`.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.protocol_simulator import BOUNDS, random_world, run, soak_protocol
from tests.support.protocol_world import World


@pytest.mark.parametrize("seed", range(20))
def test_no_rule_is_broken(seed: int) -> None:
    said = soak_protocol(25, random.Random(seed))
    assert said.startswith("25 runs of ")


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False))
def test_no_rule_is_broken_in_what_hypothesis_tries(chance: random.Random) -> None:
    run(random_world(chance), chance)


RING = {(v, (v + step) % 6): 1 for v in range(6) for step in (1, 2)}


@pytest.mark.parametrize("bound", BOUNDS)
def test_prepares_are_sent_where_the_bound_is_not_reached(bound: int) -> None:
    world = run(World(RING, 6, bound, partitions=3), random.Random(bound))
    assert (world.prepares > 0) == (bound > 1)


def test_with_a_bound_of_one_all_orders_give_the_same_commits() -> None:
    seen = set()
    for seed in range(20):
        chance = random.Random(seed)
        world = run(World(RING, 6, 1, partitions=chance.randint(1, 6)), chance)
        seen.add((world.commits, world.frontier.tau, *(t.committed for t in world.truths)))
    assert len(seen) == 1
