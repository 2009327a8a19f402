"""Every interleaving of the deliveries in small worlds, with cycles and changes of the graph."""

from __future__ import annotations

import pytest

from tests.engine.protocol.worlds import WORLDS, small_world
from tests.support.protocol_search import search

# World, delay bound, partitions, messages that come twice, and how many states there are: fewer
# would mean that interleavings are left out.
CASES = [
    ("ring", 1, 3, 0, 142),
    ("ring", 2, 3, 0, 2428),
    ("ring", 3, 3, 0, 9377),
    ("ring", 1000, 1, 0, 1310),
    ("ring", 1, 3, 2, 1178),
    ("ring", 2, 1, 1, 4528),
    ("triangle", 1, 3, 0, 227),
    ("triangle", 2, 3, 0, 10857),
    ("triangle", 3, 1, 0, 3265),
    ("triangle", 1000, 1, 0, 4026),
    ("grows", 1, 3, 0, 464),
    ("grows", 2, 3, 0, 4658),
    ("grows", 3, 1, 0, 2504),
    ("grows", 1000, 1, 0, 4510),
    ("grows", 2, 1, 1, 6813),
    ("joins", 1, 3, 0, 145),
    ("joins", 2, 3, 0, 526),
    ("joins", 3, 1, 0, 1111),
    ("shrinks", 1, 2, 0, 2058),
    ("shrinks", 2, 1, 0, 2780),
    ("self-loop", 1, 2, 0, 952),
    ("self-loop", 2, 1, 0, 2507),
]


@pytest.mark.parametrize(("name", "bound", "partitions", "copies", "states"), CASES)
@pytest.mark.sample(4)
def test_no_rule_is_broken(
    name: str, bound: int, partitions: int, copies: int, states: int
) -> None:
    assert search(small_world(name, bound, partitions), copies) == states


def test_all_worlds_are_searched() -> None:
    assert {case[0] for case in CASES} == set(WORLDS)


def test_a_search_that_grows_too_large_says_so() -> None:
    with pytest.raises(ValueError, match="more than 10 states"):
        search(small_world("ring", 2, 3), limit=10)
