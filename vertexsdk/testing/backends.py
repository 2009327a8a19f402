"""The conformance suite of backends: a class of tests that a backend's own test file subclasses.

    class TestMine(BackendSuite):
        @pytest.fixture
        def url(self, tmp_path):
            return f"mine://{tmp_path}/store"

The invariants are those of `vertexsdk.state.contract`; each test says which it holds to.
"""

from __future__ import annotations

import multiprocessing
import pickle
import random
import time
from collections.abc import Iterator

import numpy as np
import pytest

from vertexsdk.state import (
    Backend,
    CorruptError,
    FencedError,
    Head,
    SegmentKey,
    Store,
    open_store,
)
from vertexsdk.state.contract import LONGEST_NAME, new_attempt
from vertexsdk.testing.processes import (
    STEPS,
    commit_and_die,
    commit_for_ever,
    put_many,
    race_heads,
    read_segment,
    run_together,
)

__all__ = ["HOSTILE_NAMES", "BackendSuite"]

HOSTILE_NAMES = [
    "a",
    "ab",
    "a/b",
    "a b",
    "../up",
    "é\N{SNOWMAN}\N{GRINNING FACE}",
    "'; DROP TABLE heads; --",
    "%00{}:*?[x]",
    "a" * LONGEST_NAME,
]


class BackendSuite:
    """Subclass it, and give the fixture `url`: a store that is new for each test."""

    kills = 5
    """Random instants at which a writing process is killed."""

    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError("give the fixture `url`")

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        store = open_store(url)
        yield store
        store.close()

    @pytest.fixture
    def backend(self, store: Store) -> Backend:
        return store.backend

    # Segments

    @pytest.mark.parametrize("sizes", [[0], [1], [], [10, 0, 100_000], [1 << 23], [70_000] * 5])
    def test_segments_come_back(self, backend: Backend, sizes: list[int]) -> None:
        key = SegmentKey("loop", 3, 7, new_attempt())
        pieces = [np.random.default_rng(n).bytes(n) for n in sizes]
        assert backend.get_segment(key) is None
        backend.put_segment(key, pieces)
        found = backend.get_segment(key)
        assert found is not None
        assert b"".join(piece.tobytes() for piece in found) == b"".join(pieces)
        assert not any(piece.flags.writeable for piece in found)

    def test_duplicate_attempts_stand_beside_each_other(self, backend: Backend) -> None:
        keys = [SegmentKey("loop", 0, 1, new_attempt()) for _ in range(2)]
        for key, data in zip(keys, (b"one", b"two"), strict=True):
            backend.put_segment(key, [data])
        assert sorted(backend.list_segments("loop")) == sorted(keys)
        assert [_content(backend, key) for key in keys] == [b"one", b"two"]

    def test_arrays_outlive_deletion_overwriting_and_closing(self, store: Store) -> None:
        backend = store.backend
        keys = [SegmentKey("loop", 0, n, new_attempt()) for n in range(20)]
        backend.put_segment(keys[0], [b"x" * 300_000])
        found = backend.get_segment(keys[0])
        assert found is not None
        backend.delete_segments(keys[:1])
        for key in keys[1:]:  # would reuse its place
            backend.put_segment(key, [b"y" * 300_000])
        assert backend.get_segment(keys[0]) is None
        store.close()
        assert b"".join(piece.tobytes() for piece in found) == b"x" * 300_000

    def test_names_are_kept_apart(self, backend: Backend) -> None:
        keys = {name: SegmentKey(name, 20, 1 << 40, new_attempt()) for name in HOSTILE_NAMES}
        for number, (name, key) in enumerate(keys.items()):
            backend.put_segment(key, [name.encode()])
            assert backend.publish(f"m{number}", b"", name, None, Head(f"m{number}", number, 1))
        assert backend.list_heads() == sorted(keys)
        assert sorted(backend.list_segments()) == sorted(keys.values())
        for number, (name, key) in enumerate(keys.items()):
            assert list(backend.list_segments(name)) == [key]
            assert backend.list_versions(name) == [(number, f"m{number}")]
            assert _content(backend, key) == name.encode()

    def test_other_processes_read_by_location(self, backend: Backend) -> None:
        key = SegmentKey("loop", 1, 2, new_attempt())
        backend.put_segment(key, [b"abc", b"def"])
        assert run_together(read_segment, [(backend.address, key, b"abcdef")] * 2) == [0, 0]

    def test_partitions_are_written_side_by_side(self, store: Store) -> None:
        count = 20
        work = [(store.backend.address, "loop", p, count) for p in (0, 1, 16)]
        assert run_together(put_many, work) == [0, 0, 0]
        keys = list(store.backend.list_segments("loop"))
        assert [(k.partition, k.iteration) for k in keys] == [
            (p, i) for p in (0, 1, 16) for i in range(count)
        ]

    # Manifests, heads, versions

    def test_manifests_come_back(self, backend: Backend) -> None:
        assert backend.get_manifest("m") is None
        backend.put_manifest("m", b"\0data" * 10_000)
        backend.put_manifest("n", b"")
        assert backend.get_manifest("m") == b"\0data" * 10_000
        assert sorted(backend.list_manifests()) == ["m", "n"]
        backend.delete_manifests(["m", "absent"])
        assert list(backend.list_manifests()) == ["n"]

    def test_a_head_moves_only_from_what_is_expected(self, backend: Backend) -> None:
        claimed, first, second = Head("", -1, 1), Head("m", 0, 1), Head("n", 1, 1)
        assert backend.get_head("loop") is None
        assert not backend.swap_head("loop", first, second)
        assert backend.swap_head("loop", None, claimed)
        assert not backend.swap_head("loop", None, first)
        assert backend.list_versions("loop") == []
        assert backend.swap_head("loop", claimed, first)
        assert not backend.publish("n", b"", "loop", claimed, second)
        assert not backend.swap_head("loop", Head("m", 0, 2), second)
        assert backend.get_head("loop") == first
        assert backend.list_versions("loop") == [(0, "m")]
        assert not backend.drop_head("loop", second)
        assert backend.drop_head("loop", first)
        assert backend.get_head("loop") is None
        assert backend.list_versions("loop") == []

    def test_floor(self, backend: Backend) -> None:
        head = None
        for iteration in (0, 5, 300, 1 << 40):
            new = Head(f"m{iteration}", iteration, 1)
            assert backend.swap_head("b", head, new)
            head = new
        assert backend.swap_head("a", None, Head("other", 400, 1))
        assert backend.swap_head("c", None, Head("other", 2, 1))
        expected = {-1: None, 0: 0, 4: 0, 5: 5, 299: 5, 300: 300, 1 << 39: 300, 1 << 50: 1 << 40}
        for iteration, found in expected.items():
            version = None if found is None else (found, f"m{found}")
            assert backend.floor("b", iteration) == version
        assert backend.floor("absent", 5) is None
        assert backend.floor("a", 399) is None
        backend.forget_versions("b", [5, 7, 1 << 40])
        assert [i for i, _ in backend.list_versions("b")] == [0, 300, 1 << 40]
        assert head is not None
        assert backend.swap_head("b", head, Head("new", 3, 2), restart=True)
        assert backend.list_versions("b") == [(3, "new")]

    def test_racing_heads_lose_no_step(self, backend: Backend) -> None:
        assert backend.swap_head("loop", None, Head("m", 0, 0))
        codes = run_together(race_heads, [(backend.address, "loop", 25)] * 3)
        assert codes == [0, 0, 0]
        assert backend.get_head("loop") == Head("m", 75, 75)

    # The store above: what must hold through crashes and races

    @pytest.mark.parametrize("step", STEPS)
    @pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
    def test_killed_between_steps_of_a_commit(self, store: Store, step: str, before: bool) -> None:
        columns = {"id": np.arange(10), "value": np.zeros(10)}
        first = store.put_segment("loop", 0, 0, "base", columns)
        store.commit("loop", iteration=0, segments=[first])
        codes = run_together(commit_and_die, [(store.backend.address, "loop", step, before)])
        assert codes == [-9]
        committed = step == "swap_head" and not before
        assert store.versions("loop") == ([0, 1] if committed else [0])
        ((_, state),) = store.read("loop")
        assert state["value"].tolist() == [float(committed)] * 10
        assert store.verify() == []
        newest = store.claim("loop")  # and whoever comes next can go on
        again = store.put_segment("loop", 0, 2, "base", columns)
        assert store.commit("loop", iteration=2, segments=[again], parent=newest).iteration == 2

    def test_killed_at_random_instants(self, store: Store) -> None:
        context = multiprocessing.get_context("spawn")
        last = -1
        for _ in range(self.kills):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=commit_for_ever, args=(store.backend.address, "loop", theirs)
            )
            process.start()
            theirs.close()
            last = max(last, ours.recv())
            time.sleep(random.uniform(0, 0.2))
            process.kill()
            process.join()
            process.close()
            while ours.poll():
                try:
                    last = ours.recv()
                except EOFError:
                    break
            ours.close()
            newest = store.head("loop")
            assert newest is not None
            assert newest.iteration in (last, last + 1)
            assert store.versions("loop") == list(range(newest.iteration + 1))
            for at in {0, newest.iteration // 2, newest.iteration}:
                ((_, state),) = store.read("loop", at)
                assert (state["value"] == float(at)).all()
            assert store.verify() == []

    def test_the_older_of_two_drivers_is_fenced(self, store: Store) -> None:
        columns = {"id": np.arange(3), "value": np.zeros(3)}
        store.claim("loop")
        other: Store = pickle.loads(pickle.dumps(store))
        refs = [s.put_segment("loop", 0, 0, "base", columns) for s in (store, other)]
        assert other.commit("loop", iteration=0, segments=refs[1:]).iteration == 0
        with pytest.raises(FencedError, match="another driver"):
            store.commit("loop", iteration=0, segments=refs[:1])
        newest = store.head("loop")
        assert newest is not None
        assert newest.segments == (refs[1],)
        other.close()

    @pytest.mark.parametrize("rows", [10, 100_000])
    def test_a_flipped_bit_is_found_and_named(self, store: Store, rows: int) -> None:
        columns = {"id": np.arange(rows), "value": np.ones(rows)}
        ref = store.put_segment("loop", 0, 0, "base", columns)
        store.commit("loop", iteration=0, segments=[ref])
        bad = bytearray(_content(store.backend, ref.key))
        bad[-64] ^= 4
        store.backend.put_segment(ref.key, [bytes(bad)])
        with open_store(store.backend.address) as fresh:
            with pytest.raises(CorruptError, match="'value'"):
                fresh.lookup("loop", [rows - 1])
            with pytest.raises(CorruptError, match=ref.key.attempt):
                list(fresh.read("loop"))
            (problem,) = fresh.verify()
        assert ref.key.attempt in problem


def _content(backend: Backend, key: SegmentKey) -> bytes:
    found = backend.get_segment(key)
    assert found is not None
    return b"".join(piece.tobytes() for piece in found)
