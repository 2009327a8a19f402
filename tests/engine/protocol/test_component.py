"""What one component answers, event by event: Figure 3, and what the paper leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.protocol import (
    Acknowledge,
    Announcement,
    Component,
    Input,
    Message,
    Prepare,
    Time,
    Update,
)
from vertexsdk.errors import ProgramError

FAR = 100


class Sends:
    """A method that sends what it is told to, and remembers what it gathered."""

    def __init__(self, values: Mapping[int, Any]) -> None:
        self.values = dict(values)
        self.gathered: list[tuple[int, int | None, Any]] = []

    def gather(self, iteration: int, source: int | None, value: Any) -> None:
        """Remember."""
        self.gathered.append((iteration, source, value))

    def scatter(self, iteration: int) -> Mapping[int, Any]:
        """Send."""
        return self.values


def component(bound: int, *consumers: int, sends: Mapping[int, Any] | None = None) -> Component:
    """Vertex 5, which sends "new" to its consumers, or what is given."""
    values = dict.fromkeys(consumers, "new") if sends is None else sends
    return Component(5, bound, Sends(values), consumers)


def given(iteration: int = 0, **changes: tuple[int, ...]) -> Input:
    return Input(iteration, "input", **changes)


def update(source: int, clock: int, iteration: int, value: Any = "value") -> Update:
    return Update(source, 5, Time(clock, source), iteration, value)


def prepare(source: int, clock: int) -> Prepare:
    return Prepare(source, 5, Time(clock, source))


def acknowledge(consumer: int, clock: int, iteration: int) -> Acknowledge:
    return Acknowledge(consumer, 5, Time(clock, 5), iteration, clock)


def acknowledged(message: Message, iteration: int) -> bool:
    return isinstance(message, Acknowledge) and message.iteration == iteration


def test_an_update_is_prepared_then_committed_not_before_its_consumers() -> None:
    vertex = component(FAR, 7, 8)
    now = Time(1, 5)
    assert vertex.handle(given()) == [Prepare(5, 7, now), Prepare(5, 8, now)]
    assert vertex.handle(acknowledge(7, 1, 9)) == []
    assert vertex.handle(acknowledge(8, 1, 3)) == [
        Update(5, 7, now, 9, "new"),
        Update(5, 8, now, 9, "new"),
    ]
    assert (vertex.committed, vertex.low) == (9, None)


def test_what_is_gathered_raises_the_iteration() -> None:
    vertex = component(FAR, 7)
    vertex.handle(update(2, 1, 4))
    assert vertex.low == 5
    assert vertex.handle(acknowledge(7, 2, -1)) == [Update(5, 7, Time(2, 5), 5, "new")]


def test_a_bound_of_one_needs_no_prepare() -> None:
    vertex = component(1, 7)
    assert vertex.handle(given()) == [Update(5, 7, Time(1, 5), 0, "new")]


def test_a_commit_needs_the_prepare_list_empty_too() -> None:
    for bound in (1, FAR):
        vertex = component(bound, 7)
        assert acknowledged(vertex.handle(prepare(2, 1))[0], -1)
        assert vertex.handle(given()) == []
        assert vertex.handle(update(2, 1, 0, None)) != []


def test_updates_gathered_while_acknowledged_are_in_the_commit() -> None:
    vertex = component(FAR, sends={})
    vertex.handle(prepare(2, 1))
    vertex.handle(update(3, 1, 6))
    vertex.handle(update(2, 1, 4))
    assert vertex.committed == 7


def test_only_updates_that_happen_before_are_acknowledged_while_preparing() -> None:
    vertex = component(FAR, 7)
    vertex.handle(update(2, 4, 0))  # sets the clock
    assert vertex.time == Time(5, 5)
    assert acknowledged(vertex.handle(prepare(3, 5))[0], -1)  # same clock, lower id
    assert vertex.handle(prepare(9, 5)) == []  # same clock, higher id
    assert vertex.handle(acknowledge(7, 5, 0)) == []
    committed, answer = vertex.handle(update(3, 5, 1))
    assert isinstance(committed, Update)
    assert isinstance(answer, Acknowledge)
    assert (answer.target, answer.iteration) == (9, 2)


def test_a_vertex_with_something_to_do_lets_later_updates_wait_before_it_prepares() -> None:
    vertex = component(FAR, 7)
    vertex.handle(prepare(2, 1))
    vertex.handle(given())  # takes its time, and cannot prepare before 2 has committed
    assert vertex.handle(prepare(3, 9)) == []


def test_reaching_the_last_iteration_it_commits_without_acknowledges() -> None:
    vertex = component(4, 7, 8, sends={7: "new"})
    vertex.handle(given())
    said = vertex.handle(acknowledge(7, 1, 3))
    assert said == [Update(5, 7, Time(1, 5), 3, "new"), Update(5, 8, Time(1, 5), 3, None)]
    assert vertex.handle(acknowledge(8, 1, 2)) == []
    vertex.handle(Announcement(2, 5))
    vertex.handle(given())
    vertex.handle(acknowledge(8, 1, 2))  # late, of the update before
    assert vertex.waiting == {7, 8}
    assert vertex.iteration == 4


def test_updates_in_the_last_iteration_are_held_and_release_at_once() -> None:
    vertex = component(2, sends={})
    vertex.handle(prepare(2, 1))
    vertex.handle(given())
    vertex.handle(update(2, 1, 1))
    assert vertex.committed == 0  # it was not blocked, and has not gathered the update
    assert (len(vertex.held), vertex.low) == (1, 2)
    vertex.handle(Announcement(1, 2))
    assert vertex.committed == 2


def test_moving_on_while_blocked_in_the_last_iteration_it_must_prepare() -> None:
    vertex = component(2, 7)
    vertex.handle(prepare(2, 1))
    vertex.handle(update(3, 1, 0))  # it would commit in 1 without PREPARE
    vertex.handle(Announcement(1, 2))
    (sent,) = vertex.handle(update(2, 1, 0, None))
    assert isinstance(sent, Prepare)
    assert vertex.handle(Announcement(0, 1)) == []  # an old one changes nothing
    assert (vertex.tau, vertex.last) == (1, 2)


def test_while_others_have_not_heard_of_the_frontier_nobody_goes_further() -> None:
    vertex = component(2, 7)
    vertex.handle(Announcement(1, 1))
    assert vertex.handle(update(3, 1, 1)) == []
    assert (vertex.time, vertex.low) == (None, 2)
    (sent,) = vertex.handle(Announcement(1, 2))
    assert isinstance(sent, Update)


def test_a_prepare_again_is_answered_again_until_its_update_has_come() -> None:
    vertex = component(FAR, sends={})
    (first,) = vertex.handle(prepare(2, 1))
    assert vertex.handle(prepare(2, 1)) == [first]
    vertex.handle(update(2, 1, 0))
    assert vertex.handle(prepare(2, 1)) == []
    assert vertex.prepares == {}


def test_an_update_again_is_discarded() -> None:
    vertex = component(FAR, sends={})
    for _ in range(2):
        vertex.handle(update(2, 1, 3))
    assert isinstance(vertex.method, Sends)
    assert (vertex.method.gathered, vertex.committed) == ([(3, 2, "value")], 4)


def test_a_prepare_that_overtook_an_update_waits_for_it() -> None:
    vertex = component(FAR, sends={})
    vertex.handle(prepare(2, 1))
    assert vertex.handle(prepare(2, 6)) == []
    assert acknowledged(vertex.handle(update(2, 1, 3))[0], -1)
    assert vertex.prepares == {2: Time(6, 2)}


def test_an_update_that_overtook_one_is_gathered_after_it() -> None:
    vertex = component(3, sends={})
    vertex.handle(prepare(2, 1))
    vertex.handle(update(2, 6, 2, "second"))
    vertex.handle(Announcement(1, 3))
    vertex.handle(update(2, 1, 1, "first"))
    vertex.handle(update(2, 6, 2, "second"))
    assert isinstance(vertex.method, Sends)
    assert vertex.method.gathered == [(1, 2, "first"), (2, 2, "second")]


def test_a_release_that_overtook_an_update_does_not_stand_for_it() -> None:
    vertex = component(3, sends={})
    vertex.handle(prepare(2, 1))
    vertex.handle(prepare(2, 6))
    vertex.handle(update(2, 6, 2, None))
    assert (vertex.prepares, vertex.pending) == ({2: Time(1, 2)}, {})
    vertex.handle(update(2, 1, 1, "first"))
    assert vertex.committed == 2


def test_a_value_that_did_not_change_still_releases_those_that_were_asked() -> None:
    asked = component(FAR, 7, sends={})
    asked.handle(given())
    assert asked.handle(acknowledge(7, 1, 0)) == [Update(5, 7, Time(1, 5), 0, None)]
    assert component(1, 7, sends={}).handle(given()) == []


def test_a_self_loop_is_not_prepared_and_gathered_in_the_next_iteration() -> None:
    vertex = component(FAR, 5)
    vertex.method.values = {5: "own"}  # type: ignore[attr-defined]
    vertex.bound = vertex.last = 3
    assert vertex.handle(given()) == []
    assert vertex.committed == 3  # 0, 1, 2, and then 3 = last, without PREPARE
    assert vertex.low == 4


def test_inputs_are_held_back_while_preparing() -> None:
    vertex = component(FAR, 7)
    vertex.handle(given())
    assert vertex.handle(given(added=(8,), removed=(7,))) == []
    vertex.method.values = {7: "gone", 8: "new"}  # type: ignore[attr-defined]
    with pytest.raises(ProgramError, match="vertex 5 sends to 8, which is not its target"):
        vertex.handle(acknowledge(7, 1, 0))


def test_a_consumer_that_leaves_is_asked_and_told_a_last_time() -> None:
    vertex = component(FAR, 7)
    vertex.handle(given())
    vertex.handle(given(added=(8,), removed=(7,)))
    released, *again = vertex.handle(acknowledge(7, 1, 0))
    assert released == Update(5, 7, Time(1, 5), 0, "new")
    assert again == [Prepare(5, 7, Time(2, 5)), Prepare(5, 8, Time(2, 5))]
    vertex.method.values = {7: "gone", 8: "new"}  # type: ignore[attr-defined]
    vertex.handle(acknowledge(7, 2, 0))
    assert vertex.handle(acknowledge(8, 2, 6)) == [
        Update(5, 7, Time(2, 5), 6, "gone"),
        Update(5, 8, Time(2, 5), 6, "new"),
    ]
    assert vertex.handle(given()) == [Prepare(5, 8, Time(3, 5))]


def test_inputs_after_a_commit_in_the_last_iteration_wait_without_a_time() -> None:
    vertex = component(1, 7)
    vertex.handle(given())
    assert vertex.handle(given()) == []
    assert (vertex.time, vertex.low) == (None, 1)
    assert acknowledged(vertex.handle(prepare(2, 50))[0], 0)
