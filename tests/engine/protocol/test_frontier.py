"""The master's side: when an iteration has terminated, and when the loop has."""

from __future__ import annotations

import pytest

from tests.support.protocol import Frontier


def test_it_is_the_smallest_of_what_partitions_report() -> None:
    frontier = Frontier(2, 4)
    assert (frontier.tau, frontier.last, frontier.quiet) == (0, 3, False)
    frontier.report(0, 5)
    assert not frontier.advance()
    frontier.report(1, 2)
    assert frontier.advance()
    assert (frontier.tau, frontier.last) == (2, 5)
    frontier.report(1, None)
    assert frontier.advance()
    assert (frontier.tau, frontier.last) == (5, 8)


def test_it_does_not_go_back() -> None:
    frontier = Frontier(1, 1)
    frontier.report(0, 5)
    frontier.advance()
    frontier.report(0, 3)
    assert not frontier.advance()
    assert frontier.tau == 5


def test_an_update_in_transit_keeps_its_iteration() -> None:
    frontier = Frontier(2, 9)
    frontier.sent(1, 3, 2)
    frontier.report(0, None)
    frontier.report(1, None)
    frontier.advance()
    assert (frontier.tau, frontier.quiet) == (3, False)
    frontier.received(1, 3)
    frontier.advance()
    assert (frontier.tau, frontier.quiet) == (3, False)
    frontier.received(1, 3)
    frontier.report(1, 4)
    frontier.advance()
    assert (frontier.tau, frontier.quiet) == (4, False)
    frontier.report(1, None)
    assert frontier.quiet
    assert not frontier.advance()


def test_the_last_iteration_stays_while_an_update_of_it_is_in_transit() -> None:
    frontier = Frontier(2, 3)
    frontier.sent(1, 2)
    frontier.report(0, 2)
    frontier.report(1, 2)
    assert not frontier.advance()
    frontier.received(1, 2)
    assert frontier.advance()
    assert (frontier.tau, frontier.last) == (2, 4)


def test_synchronous_hops_take_one_iteration_each() -> None:
    frontier = Frontier(2, 1)
    for iteration in range(3):
        for partition in range(2):
            frontier.report(partition, None)
            frontier.sent(1 - partition, iteration)
        assert not frontier.advance()
        for partition in range(2):
            frontier.received(partition, iteration)
            frontier.report(partition, iteration + 1)
        assert frontier.advance()
        assert (frontier.tau, frontier.last, frontier.quiet) == (iteration + 1,) * 2 + (False,)
    for partition in range(2):
        frontier.report(partition, None)
    assert not frontier.advance()
    assert (frontier.tau, frontier.quiet) == (3, True)


def test_the_last_iteration_waits_for_who_has_not_heard_of_the_frontier() -> None:
    frontier = Frontier(2, 3)
    frontier.report(0, 2, heard=0)
    frontier.report(1, 2, heard=0)
    assert frontier.advance()
    assert (frontier.tau, frontier.last) == (2, 2)
    frontier.report(0, 2, heard=2)
    assert not frontier.advance()
    frontier.report(1, 2, heard=2)
    assert frontier.advance()
    assert (frontier.tau, frontier.last) == (2, 4)


def test_what_was_not_sent_cannot_be_received() -> None:
    frontier = Frontier(1, 1)
    frontier.sent(0, 4)
    with pytest.raises(ValueError, match="tell `sent` first"):
        frontier.received(0, 5)
    with pytest.raises(ValueError, match="received more updates of iteration 4"):
        frontier.received(0, 4, 2)


@pytest.mark.parametrize(("partitions", "bound"), [(0, 1), (1, 0)])
def test_it_needs_partitions_and_a_bound(partitions: int, bound: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Frontier(partitions, bound)
