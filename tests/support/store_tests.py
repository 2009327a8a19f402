"""Tests of the store that need any one backend: forks, merges, compaction, leases and copies."""

from __future__ import annotations

import pickle
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from vertexsdk.state import (
    CorruptError,
    FencedError,
    MissingError,
    SegmentRef,
    StateError,
    StateInputError,
    Store,
    garbage,
    open_store,
)
from vertexsdk.state.garbage import Audit
from vertexsdk.state.pins import Lease
from vertexsdk.testing._contract_suite import content
from vertexsdk.testing._processes import put

__all__ = ["StoreTests"]


class StoreTests:
    """Every operation of the store; mixed into a `BackendSuite`, which has the fixtures."""

    def test_forks_and_merges_make_a_tree(self, store: Store) -> None:
        commit(store, "main", 0, 0.0)
        commit(store, "main", 1, 1.0)
        for name in ("a", "b"):
            store.fork("main", name)
            commit(store, name, 2, 20.0 + ord(name))
        store.fork("a", "aa", 1)
        commit(store, "aa", 5, 55.0)
        commit(store, "a", 3, 33.0)
        assert {n: value(store, n) for n in store.loops()} == {
            "a": 33.0,
            "aa": 55.0,
            "b": 20.0 + ord("b"),
            "main": 1.0,
        }
        assert store.merge("a", "main", 7).iteration == 7
        assert value(store, "main") == 33.0
        assert value(store, "main", 6) == 1.0
        with pytest.raises(StateInputError, match="has changed since"):
            store.merge("b", "main")
        changed = store.diff(("main", 6), ("main", None))
        assert changed.changed.tolist() == list(range(10))
        assert changed.fields == {"value": 10}
        assert store.diff(("a", None), ("main", None)).changed.size == 0
        for name in ("a", "b", "main"):
            store.delete(name)
        assert value(store, "aa") == 55.0
        store.delete("aa")
        audit = store.audit()
        assert (audit.versions, audit.unreferenced) == (0, [])

    def test_a_thousand_bits_of_deltas_compacted(self, store: Store) -> None:
        commit(store, "main", 0, 0.0)
        newest = store.head("main")
        for iteration in range(1, 40):
            columns = {"id": np.array([iteration % 10]), "value": np.array([float(iteration)])}
            ref = store.put_segment("main", 0, iteration, "delta", columns)
            newest = store.commit("main", iteration=iteration, segments=[ref], parent=newest)
        ((_, before),) = store.read("main")
        ((_, old),) = store.read("main", 17)
        other = open_store(store.backend.address)
        compacted = other.compact("main")
        other.close()
        assert [ref.kind for ref in store.segments(compacted)] == ["base"]
        ((_, after),) = store.read("main")
        assert after["value"].tolist() == before["value"].tolist()
        ((_, again),) = store.read("main", 17)
        assert again["value"].tolist() == old["value"].tolist()
        columns = {"id": np.array([3]), "value": np.array([-1.0])}
        ref = store.put_segment("main", 0, 40, "delta", columns)
        store.commit("main", iteration=40, segments=[ref], parent=newest)  # it did not notice
        expected = before["value"].copy()
        expected[before["id"] == 3] = -1.0
        ((_, last),) = store.read("main")
        assert last["value"].tolist() == expected.tolist()
        assert store.verify() == []

    def test_a_segment_that_waited_is_missed_or_stays(self, store: Store) -> None:
        first = commit(store, "main", 0, 0.0)
        ref = put(store, "main", 1, 1.0)
        store.collect(0, alone=True)
        with pytest.raises(MissingError, match="collected before it was committed"):
            store.commit("main", iteration=1, segments=[ref], parent=first)
        assert store.versions("main") == [0]
        assert store.audit().unreferenced == []
        ref = put(store, "main", 1, 1.0)
        with lease_of(store, ref):
            assert store.collect(0, alone=True).segments == 0
        store.commit("main", iteration=1, segments=[ref], parent=first)
        assert value(store, "main") == 1.0

    def test_a_commit_between_the_steps_of_a_collection(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever the collector saw before, it removes nothing that was committed since."""
        first = commit(store, "main", 0, 0.0)
        ref = put(store, "main", 1, 1.0)
        look = garbage.reachable

        def look_and_commit(*args: Any) -> Any:
            seen = look(*args)
            store.commit("main", iteration=1, segments=[ref], parent=first)
            return seen

        monkeypatch.setattr(garbage, "reachable", look_and_commit)
        with open_store(store.backend.address) as collector:
            collector.collect(0, alone=True)
        monkeypatch.undo()
        assert store.versions("main") == [0, 1]
        assert store.verify() == []

    def test_a_branch_deleted_while_it_is_merged(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit(store, "main", 0, 0.0)
        store.fork("main", "branch")
        commit(store, "branch", 1, 1.0)
        swap = store.backend.swap_head

        def delete_first(loop: str, expected: Any, head: Any, new: Any = None) -> bool:
            if new is not None:
                with open_store(store.backend.address) as other:
                    other.delete("branch")
            return swap(loop, expected, head, new)

        monkeypatch.setattr(store.backend, "swap_head", delete_first)
        with pytest.raises(MissingError, match="collected before it was committed"):
            store.merge("branch", "main")
        monkeypatch.undo()
        assert store.versions("main") == [0]
        assert store.audit() == Audit(versions=1, segments=1, bytes=store.audit().bytes)

    @pytest.mark.parametrize("hours", [1, -1])
    def test_no_clock_loses_a_commit(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, hours: int
    ) -> None:
        """A collector or a writer on a host whose clock is wrong by an hour."""
        first = commit(store, "main", 0, 0.0)
        second = commit(store, "main", 1, 1.0)
        real = (time.time, time.time_ns)
        if hours > 0:
            ref = put(store, "main", 2, 2.0)
        with store.pin("main", 0) as pinned:
            monkeypatch.setattr(time, "time", lambda: real[0]() + 3600 * hours)
            monkeypatch.setattr(time, "time_ns", lambda: real[1]() + 3600 * hours * 10**9)
            if hours < 0:
                ref = put(store, "main", 2, 2.0)
                monkeypatch.undo()
            with open_store(store.backend.address) as collector:
                assert collector.prune("main", 1) == [0]
                collected = collector.collect(600)
            monkeypatch.undo()
            if store.backend.shared:  # a clock of its own, which nobody sets
                assert collected.segments == 0
            if store.backend.shared or hours < 0:
                ((_, state),) = store.read("main", pinned)
                assert state["value"].tolist() == [0.0] * 10
        assert first.name == pinned.name
        try:
            store.commit("main", iteration=2, segments=[ref], parent=second)
        except MissingError:
            assert not store.backend.shared
            assert store.versions("main") == [1]
        else:
            assert store.versions("main") == [1, 2]
        assert store.verify() == []

    def test_a_pinned_version_can_be_read_after_it_was_dropped(self, store: Store) -> None:
        for iteration in range(3):
            commit(store, "main", iteration, float(iteration))
        with store.pin("main", 1) as version:
            assert store.prune("main", 1) == [0, 1]
            store.collect(0, alone=True)
            ((_, state),) = store.read("main", version)
            assert state["value"].tolist() == [1.0] * 10
        store.collect(0, alone=True)
        with pytest.raises(MissingError):
            list(store.read("main", version))
        assert store.audit().unreferenced == []

    def test_a_loop_is_copied_with_its_versions(self, store: Store, tmp_path: Any) -> None:
        for iteration in range(3):
            commit(store, "main", iteration, float(iteration))
        store.fork("main", "branch", 1)
        with open_store(f"lmdb://{tmp_path}/copy") as target:
            assert store.copy("main", target).versions == 3
            assert store.copy("branch", target).segments == 0  # they share them there too
            assert [value(target, "main", i) for i in range(3)] == [0.0, 1.0, 2.0]
            assert target.verify() == []
            with pytest.raises(StateInputError, match="already"):
                store.copy("main", target)
            assert target.copy("main", store, "back", newest=True).versions == 1
        assert value(store, "back") == 2.0
        assert store.audit().unreferenced == []

    def test_the_older_of_two_drivers_is_fenced(self, store: Store) -> None:
        store.claim("loop")
        other: Store = pickle.loads(pickle.dumps(store))
        refs = [put(s, "loop", 0, 0.0) for s in (store, other)]
        assert other.commit("loop", iteration=0, segments=refs[1:]).iteration == 0
        with pytest.raises(FencedError, match="another driver"):
            store.commit("loop", iteration=0, segments=refs[:1])
        newest = store.head("loop")
        assert newest is not None
        assert newest.segments == (refs[1],)
        other.close()

    def test_a_loop_that_took_the_name_of_another_is_not_the_other(self, store: Store) -> None:
        """Its head is equal, but for the epoch."""
        parent = commit(store, "main", 0, 0.0)
        store.fork("main", "branch")
        store.claim("branch")
        with open_store(store.backend.address) as other:
            other.delete("branch")
            other.fork("main", "branch")
            other.claim("branch")
            ref = put(store, "branch", 1, 1.0)
            with pytest.raises(FencedError, match="another driver"):
                store.commit("branch", iteration=1, segments=[ref], parent=parent)
            assert value(other, "branch") == 0.0
            commit(other, "branch", 1, 2.0)
        assert value(store, "branch") == 2.0

    def test_a_fenced_driver_that_read_the_newest_version(self, store: Store) -> None:
        commit(store, "main", 0, 0.0)
        with open_store(store.backend.address) as other:
            commit(other, "main", 1, 1.0)
        ref = put(store, "main", 2, 2.0)
        with pytest.raises(FencedError, match="another driver"):
            store.commit("main", iteration=2, segments=[ref], parent=store.head("main"))
        store.claim("main")
        with pytest.raises(StateInputError, match="not its newest"):
            store.commit("main", iteration=2, segments=[], parent=store.version("main", 0))

    def test_a_commit_that_was_compacted_before_its_answer_came(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The backend tries again, and is told that the head is another one; it is the same."""
        commit(store, "main", 0, 0.0)
        ref = put(store, "main", 1, 1.0, kind="delta")
        swap = store.backend.swap_head

        def twice(loop: str, expected: Any, head: Any, new: Any = None) -> bool:
            monkeypatch.undo()
            assert swap(loop, expected, head, new)
            with open_store(store.backend.address) as other:
                other.compact("main")
            return swap(loop, expected, head, new)

        monkeypatch.setattr(store.backend, "swap_head", twice)
        parent = store.head("main")
        newest = store.commit("main", iteration=1, segments=[ref], parent=parent)
        assert newest == store.head("main")
        assert [ref.kind for ref in store.segments(newest)] == ["base"]
        commit(store, "main", 2, 2.0)
        assert [value(store, "main", at) for at in store.versions("main")] == [0.0, 1.0, 2.0]
        assert store.audit().unreferenced == []

    @pytest.mark.parametrize("lease", [False, True])
    def test_a_version_that_was_compacted_is_held_as_it_is_now(
        self, store: Store, lease: bool
    ) -> None:
        """As a driver knows it by the name that it had when it was committed."""
        commit(store, "main", 0, 0.0)
        ref = put(store, "main", 1, 1.0, kind="delta")
        newest = store.commit("main", iteration=1, segments=[ref], parent=store.head("main"))
        with open_store(store.backend.address) as other:
            compacted = other.compact("main")
        assert compacted.name != newest.name
        pin = store.hold("main", newest, lease=lease)
        assert pin.manifest == compacted
        ((_, columns),) = store.read("main", pin.manifest)
        assert columns["value"].tolist() == [1.0] * len(columns["value"])
        pin.release(store)

    def test_a_fork_whose_answer_is_lost_leaves_nothing(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit(store, "main", 0, 0.0)
        swap = store.backend.swap_head

        def lose(*args: Any) -> bool:
            swap(*args)
            raise StateError("the connection broke")

        monkeypatch.setattr(store.backend, "swap_head", lose)
        with pytest.raises(StateError, match="broke"):
            store.fork("main", "branch")
        monkeypatch.undo()
        assert store.loops() == ["main"]
        store.fork("main", "branch")

    @pytest.mark.parametrize("rows", [10, 100_000])
    def test_a_flipped_bit_is_found_and_named(self, store: Store, rows: int) -> None:
        ref = put(store, "loop", 0, 1.0, rows)
        store.commit("loop", iteration=0, segments=[ref])
        bad = bytearray(content(store.backend, ref.key))
        bad[bad.rindex(struct.pack("<d", 1.0))] ^= 4  # the value in the last row
        ((_, state),) = store.read("loop")
        last = int(state["id"][-1])
        store.backend.put_segment(ref.key, [bytes(bad)])
        with open_store(store.backend.address) as fresh:
            with pytest.raises(CorruptError, match="'value'"):
                fresh.lookup("loop", [last])
            with pytest.raises(CorruptError, match=ref.key.attempt):
                list(fresh.read("loop"))
            (problem,) = fresh.verify()
        assert ref.key.attempt in problem


def commit(store: Store, loop: str, iteration: int, number: float) -> Any:
    """Commit a base of ten vertices with one value."""
    refs = [put(store, loop, iteration, number)]
    return store.commit(loop, iteration=iteration, segments=refs, parent=store.head(loop))


@contextmanager
def lease_of(store: Store, ref: SegmentRef) -> Iterator[None]:
    """Hold a segment that no version has."""
    lease = Lease(store.backend, 60.0, segments=[ref.key])
    yield
    lease.close()


def value(store: Store, loop: str, at: int | None = None) -> float:
    """The value that all vertices have."""
    ((_, state),) = store.read(loop, at)
    (number,) = set(state["value"].tolist())
    return float(number)
