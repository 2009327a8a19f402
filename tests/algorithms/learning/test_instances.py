"""The instances of learners: their columns, and the sample that only their ids decide."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.seeds import seed
from vertexsdk.algorithms.learning.instances import CELL, Instances, InstancesState
from vertexsdk.algorithms.learning.rows import SparseRows
from vertexsdk.algorithms.learning.sample import ChanceOrder, Sample
from vertexsdk.program.keyed_state import Journal, TableSpec
from vertexsdk.testing.state_elements import StateElementSuite


def state_of(kind: type) -> InstancesState:
    journal = Journal()
    journal.running = True
    return InstancesState(TableSpec("instances", Instances(kind)), journal)


def features_of(row: np.ndarray, *, sparse: bool) -> bytes:
    if not sparse:
        return row.tobytes()
    at = np.flatnonzero(row)
    cells = np.empty(len(at), CELL)
    cells["column"], cells["value"] = at, row[at]
    return cells.tobytes()


def zeros(n: int) -> pa.LargeBinaryArray:
    """Return a feature of so many instances."""
    return pa.array([bytes(8)] * n, pa.large_binary())


def matrix_of(state: InstancesState, width: int, *, sparse: bool) -> dict[float, tuple[float, ...]]:
    """Return the features by target; the targets of these tests differ."""
    own = state.all(width, sparse)
    rows = own.rows
    if isinstance(rows, SparseRows):
        dense = np.zeros((len(own), width))
        at = np.repeat(np.arange(len(own)), np.diff(rows.indptr))
        dense[at, rows.indices] = rows.values
        rows = dense
    return {t: tuple(row) for t, row in zip(own.targets.tolist(), rows.tolist(), strict=True)}


def assert_samples_are_anew(
    state: InstancesState, width: int, share: float, *, sparse: bool
) -> None:
    """What is kept of the last sample makes no difference."""
    anew = state.fork(Journal())
    anew._chosen, anew._chance, anew._places_before = {}, None, {}
    pair = [one.sample(width, sparse, share) for one in (state, anew)]
    (own, order), (expected, expected_order) = pair
    assert order.tobytes() == expected_order.tobytes()
    assert own.targets.tobytes() == expected.targets.tobytes()
    if not isinstance(own.rows, SparseRows):
        assert own.rows.tobytes() == np.asarray(expected.rows).tobytes()
        return
    for part, other in zip(own.rows, expected.rows, strict=True):
        np.testing.assert_array_equal(part, other, strict=True)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", [int, str])
def test_drawn_changes(kind: type, sparse: bool) -> None:
    """Replaced, withdrawn, taken back, stored and restored, forked: as a dict has them."""
    chance, width = random.Random(seed()), 4
    rng = np.random.default_rng(seed())
    state, plain, target = state_of(kind), dict[object, tuple[float, tuple[float, ...]]](), 0.0
    for _ in range(300):
        mark, before = state.journal.mark(), dict(plain)
        for _ in range(chance.randint(0, 30)):
            key = kind(chance.randrange(60))
            if chance.random() < 0.3:
                assert state.discard(key) == (plain.pop(key, None) is not None)
                continue
            target += 1.0
            row = rng.integers(0, 3, width).astype(float)
            state.add(key, target, features_of(row, sparse=sparse))
            plain[key] = target, tuple(row.tolist())
        if chance.random() < 0.5:
            assert matrix_of(state, width, sparse=sparse) == dict(plain.values())
            assert_samples_are_anew(
                state, width, chance.choice([0.0, 0.2, 0.7, 1.0]), sparse=sparse
            )
        draw = chance.random()
        if draw < 0.3:
            state.journal.undo(mark)
            plain = before
        elif draw < 0.5:
            state.journal.clear()
        elif draw < 0.6:
            state.journal.clear()
            other, state = state, state.fork(Journal())
            state.journal.running = True
            expected = matrix_of(other, width, sparse=sparse)
            state.add(kind(5), target := target + 1.0, features_of(np.ones(4), sparse=sparse))
            plain[kind(5)] = target, (1.0,) * 4
            assert matrix_of(other, width, sparse=sparse) == expected
        elif draw < 0.7:
            restored = state_of(kind)
            for key in state.rows:
                restored.restore(key, state.stored(key))
            state = restored
        assert state.size() == len(plain)
        assert matrix_of(state, width, sparse=sparse) == dict(plain.values())
        if chance.random() < 0.5:
            assert_samples_are_anew(
                state, width, chance.choice([0.0, 0.2, 0.7, 1.0]), sparse=sparse
            )
    assert len(state._columns) < 5000  # of some 4,000 instances that were added most are dropped


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", [int, str])
def test_instances_that_take_the_place_of_others(kind: type, sparse: bool) -> None:
    """Whichever change finds that features are to be dropped, the newest ones stay."""
    state, width = state_of(kind), 2
    plain: dict[object, tuple[float, tuple[float, ...]]] = {}
    for k in range(4000):
        key, row = kind(k % 10), np.array([1.0 + k, -1.0 - k])
        if k % 7 == 3:
            assert state.discard(key) == (plain.pop(key, None) is not None)
        else:
            state.add(key, float(k), features_of(row, sparse=sparse))
            plain[key] = float(k), tuple(row.tolist())
        state.journal.clear()
        if k % 500 == 499:
            assert matrix_of(state, width, sparse=sparse) == dict(plain.values())
    assert matrix_of(state, width, sparse=sparse) == dict(plain.values())
    assert len(state._columns) < 1100


@pytest.mark.parametrize("kind", [int, str])
def test_the_sample_is_uniform_whatever_the_order_and_the_withdrawals(kind: type) -> None:
    keys = [kind(k) for k in range(20_000)]
    order, chance = list(keys), random.Random(seed())
    chance.shuffle(order)
    first, second = state_of(kind), state_of(kind)
    gone = [kind(k) for k in range(20_000, 30_000)]
    first.add_all(keys, np.arange(20_000.0), zeros(20_000))
    second.add_all(gone, np.full(10_000, -1.0), zeros(10_000))
    second.add_all(order, np.array(order, np.float64), zeros(20_000))
    second.discard_all(gone)
    share = 0.1
    sample, _ = first.sample(1, False, share)
    assert sample.targets.tolist() == second.sample(1, False, share)[0].targets.tolist()
    # Uniform over the times of arrival: twenty parts of 1,000, chi-square with 19 degrees.
    counts = np.bincount((sample.targets // 1000).astype(int), minlength=20)
    expected = len(sample) / 20
    assert abs(len(sample) - 2000) < 5 * np.sqrt(2000)
    assert ((counts - expected) ** 2 / expected).sum() < 45  # 0.1 % of draws are above 44
    # And its order, that SGD goes by, has nothing to do with time.
    ranks = np.argsort(np.argsort(sample.targets))
    assert abs(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]) < 0.1


def test_the_samples_of_partitions_are_that_of_all() -> None:
    whole, parts = state_of(int), [state_of(int) for _ in range(7)]
    for key in range(2000):
        whole.add(key, float(key), bytes(8))
        parts[key % 7].add(key, float(key), bytes(8))
    sampled = [t for part in parts for t in part.sample(1, False, 0.25)[0].targets.tolist()]
    assert sorted(sampled) == sorted(whole.sample(1, False, 0.25)[0].targets.tolist())


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_sample_is_not_computed_anew(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the instances that stay, nothing is sorted or taken again."""
    state = state_of(int)
    state.add_all(range(5000), np.arange(5000.0), zeros(5000))
    state.sample(1, False, share)
    taken, sorted_ = [], []
    take, of = Sample.take, ChanceOrder.of
    monkeypatch.setattr(Sample, "take", lambda self, at: taken.append(len(at)) or take(self, at))
    monkeypatch.setattr(ChanceOrder, "of", lambda *given: sorted_.append(1) or of(*given))
    state.add_all(range(4990, 5010), np.arange(20.0), zeros(20))
    state.discard_all(range(20))
    sample, _ = state.sample(1, False, share)
    assert len(sample) == pytest.approx(4990 * share, rel=0.1)
    assert sum(taken) <= 20
    assert not sorted_
    state.sample(1, False, share / 2)  # a part of it, as when there are more instances
    assert sum(taken) <= 20
    monkeypatch.undo()
    assert_samples_are_anew(state, 1, share, sparse=False)


def test_equal_places_in_the_order_by_chance() -> None:
    """The smaller place is first, whatever came when."""
    chance = random.Random(seed())
    order = np.array([chance.randrange(4) / 4 for _ in range(60)])
    places = set(range(0, 60, 2))
    instances = Sample(np.arange(60.0)[:, None], np.arange(60.0))
    kept = ChanceOrder.of(order, np.array(sorted(places))).take(instances, 0.5)
    for _ in range(50):
        gone = set(chance.sample(sorted(places), 3))
        new = set(chance.sample(sorted(set(range(60)) - places), 3))
        places = places - gone | new
        kept = kept.changed(order, np.array([*gone]), np.array(sorted(new)))
        share = chance.choice([0.2, 0.5, 1.0])
        kept = kept.take(instances, share)
        anew = ChanceOrder.of(order, np.array(sorted(places))).take(instances, share)
        for part, other in zip(kept[:3], anew[:3], strict=True):
            assert part.tolist() == other.tolist()
        assert kept.sample.targets.tolist() == anew.sample.targets.tolist()
        assert kept.sample.rows.tolist() == anew.sample.rows.tolist()


class ShownState(InstancesState):
    def instance(self, key: Any) -> list[Any]:
        row = self.row_of(key)
        return [] if row is None else list(self.to_fields(row))

    def targets(self) -> list[float]:
        return self.classes(1, False).tolist()


class Shown(Instances):
    state = ShownState
    reads = ("size", "instance", "targets")
    without_key = ("size", "targets")


class TestInstances(StateElementSuite):
    key_types, combine = (int,), max
    test_instances_are_combined = None  # type: ignore[assignment]  # an id is on one partition

    def element(self, key: type) -> Shown:
        return Shown(key)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        number = float(chance.randrange(9))
        return (number, np.array([number]).tobytes()) if method == "add" else ()
