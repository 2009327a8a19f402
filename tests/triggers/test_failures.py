"""Whatever fails between a write and its end: nothing is lost, done twice, or done by half."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.seeds import draws, seed
from tests.support.store_faults import KINDS, DriverKilled, NthFault
from tests.triggers.programs import KMeans
from vertexsdk import (
    RunError,
    StateError,
    StateInputError,
    Sum,
    Table,
    TriggerLoop,
    Triggers,
    accumulate,
    on_change,
)
from vertexsdk.engine.keyed import trigger_partition
from vertexsdk.engine.keyed.trigger_partition import TriggerPartition
from vertexsdk.engine.keyed.trigger_writes import VisibleWrites
from vertexsdk.errors import LostError
from vertexsdk.program.trigger_program import CellRows

State = list[list[dict[str, Any]]]


class Accounts(Triggers):
    """Counts what a second run would count twice, over several rounds."""

    payments = Table(id=int, account=str, amount=int)
    accounts = Table(account=str, balance=int, payments=int)
    banks = Table(bank=str, balance=int, changes=int)

    @on_change(payments)
    def book(self, payment, old):
        if old:
            self.accounts[old.account].balance -= old.amount
            self.accounts[old.account].payments -= 1
        if payment:
            self.accounts[payment.account].balance += payment.amount
            self.accounts[payment.account].payments += 1

    @on_change(accounts, "balance")
    def tell(self, account, old):
        self.sums[account.account[:1]][account.account] = account.balance

    @accumulate(Sum(int))
    def sums(self, bank, total):
        self.banks[bank].balance = total
        self.banks[bank].changes += 1


Step = Callable[[TriggerLoop], Any]
STEPS: list[Step] = [
    lambda loop: loop.upsert("payments", id=[1, 2], account=["ab", "ac"], amount=[5, 7]),
    lambda loop: loop.upsert("payments", id=2, amount=9),
    lambda loop: loop.delete("payments", [1, 8]),
    lambda loop: loop.upsert("payments", id=[3, 4, 5], account=["ab", "b", "b"], amount=[1, 2, 3]),
    lambda loop: loop.activate("tell"),
    lambda loop: loop.upsert("payments", id=[3, 1], account=["b", "ab"]),
]


def state(loop: TriggerLoop) -> State:
    return [loop.read(name).to_pylist() for name in ("payments", "accounts", "banks")]


@pytest.fixture(scope="module")
def expected() -> list[State]:
    """The state before and after each step, with nothing failing."""
    with TriggerLoop(Accounts, backend="memory://accounts-expected", replace=True) as loop:
        states = [state(loop)]
        for step in STEPS:
            step(loop)
            states.append(state(loop))
    assert states[-1][2] == [
        {"bank": "a", "balance": 9, "changes": 5}, {"bank": "b", "balance": 6, "changes": 2},
    ]  # fmt: skip
    return states


def nth_failure(url: str, kind: str, number: int, snapshots: Any, states: list[State]) -> NthFault:
    """Make the steps on a loop, with one fault of its store, after which another driver goes on."""
    faults, drivers, loop = NthFault(kind, number, None), 0, None
    options: dict[str, Any] = {"backend": url, "snapshot_every": 2, "snapshots": snapshots}
    with faults.installed():
        done = 0
        while done < len(STEPS):
            if loop is None:
                drivers += 1
                assert drivers < 20
                partitions = 1 + (number + drivers) % 3
                try:
                    with faults.driver(drivers):
                        try:
                            loop = TriggerLoop.resume(Accounts, partitions=partitions, **options)
                        except StateInputError:  # there is no loop yet
                            loop = TriggerLoop(Accounts, partitions=partitions, **options)
                except (StateError, DriverKilled):
                    continue
            try:
                with faults.driver(drivers):
                    STEPS[done](loop)
                done += 1
            except (StateError, RunError, DriverKilled) as error:
                with faults.paused():
                    if isinstance(error, DriverKilled):
                        loop._end(ValueError("the driver ended"))
                        loop = None
                        try:
                            now = stored_state(options)
                        except StateInputError:  # it had not begun
                            continue
                    else:
                        now = state(loop)
                    assert now in (states[done], states[done + 1])
                    done += now == states[done + 1] and now != states[done]
            with faults.paused():
                if loop is not None:
                    assert state(loop) == states[done]
        with faults.paused():
            if loop is not None:
                loop._end(ValueError("the driver ended"))
            assert stored_state(options) == states[-1]
    return faults


def stored_state(options: dict[str, Any]) -> State:
    """The state that another driver finds, which then ends without a snapshot."""
    loop = TriggerLoop.resume(Accounts, partitions=2, **options)
    try:
        return state(loop)
    finally:
        loop._end(ValueError("the driver ended"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("snapshots", ["synchronous", "asynchronous"])
def test_drawn_calls_of_a_store(kind: str, snapshots: str, expected: list[State]) -> None:
    chance = random.Random(seed())
    for k in range(draws(3, 10)):
        url = f"memory://accounts-{kind.replace(' ', '-')}-{snapshots}-{k}"
        number = chance.randint(1, 60)
        print(number)
        nth_failure(url, kind, number, snapshots, expected)


def fail_at(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, number: int, error: BaseException
) -> list[int]:
    """Have a method raise when it is called for the nth time; return the number of calls."""
    counted, original = [0], getattr(owner, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        counted[0] += 1
        if counted[0] == number:
            raise error
        return original(self, *args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return counted


def lose(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, number: int) -> list[int]:
    """Have a processor be lost when a method of it is called for the nth time."""

    def failure(self: Any, number: int, error: BaseException) -> Any:
        if isinstance(error, LostError):
            raise error
        return untouched(self, number, error)

    untouched = TriggerPartition._failure
    monkeypatch.setattr(TriggerPartition, "_failure", failure)
    return fail_at(monkeypatch, owner, name, number, LostError("a processor was lost"))


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (TriggerPartition, "_run"),  # before an action writes
        (TriggerPartition, "_divided"),  # between what it has written and its being visible
        (VisibleWrites, "_apply_to_row"),  # with a half of that
        (VisibleWrites, "apply_round"),
        (CellRows, "put_cells"),
        (VisibleWrites, "clear"),  # when all is done, before the answer
    ],
)
def test_a_processor_that_is_lost(
    owner: type, name: str, expected: list[State], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sections 5.3 and 5.4 of the paper: the batch is repeated from the store."""
    happened = 0
    for number in (1, 2, 4, 9, 20, 50):
        with monkeypatch.context() as patch:
            counted = lose(patch, owner, name, number)
            url = f"memory://lost-{name}-{number}"
            with TriggerLoop(Accounts, backend=url, partitions=2, snapshot_every=3) as loop:
                for step in STEPS:
                    step(loop)
                assert state(loop) == expected[-1]
            happened += counted[0] >= number
    assert happened > 2


def test_an_interrupt_leaves_nothing_behind(
    expected: list[State], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while triggers run reaches the caller; the rows are in the log, and are there then."""
    for number in (1, 3, 6):
        with monkeypatch.context() as patch:
            fail_at(patch, VisibleWrites, "_apply_to_row", number, KeyboardInterrupt())
            url = f"memory://interrupt-{number}"
            with TriggerLoop(Accounts, backend=url, partitions=2) as loop:
                with pytest.raises(KeyboardInterrupt):
                    STEPS[0](loop)
                assert state(loop) == expected[1]
                STEPS[1](loop)
                assert state(loop) == expected[2]


def test_collections_are_as_they_were() -> None:
    """The thresholds of Python's garbage collector are those of before, whatever runs together."""
    import gc

    before = gc.get_threshold()
    with TriggerLoop(KMeans, backend="memory://collections", partitions=3) as loop:
        loop.upsert("centres", id=[0, 1], point=[[0.0, 0.0], [1.0, 1.0]])
        loop.upsert("items", id=range(10), point=[[k, k] for k in range(10)])
    assert gc.get_threshold() == before
    with trigger_partition._rare_collections, trigger_partition._rare_collections:
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
