"""Tests of a backend's own methods: segments, manifests, heads and versions."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from vertexsdk.state import Backend, Head, MissingError, SegmentKey, Store
from vertexsdk.state.contract import LONGEST_NAME, NewManifest, new_attempt
from vertexsdk.testing._processes import put_many, race_heads, read_segment, run_together

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
RESTART = NewManifest("new", b"", restart=True)


class ContractSuite:
    """The contract's methods, one by one; needs the fixtures of `BackendSuite`."""

    @pytest.mark.parametrize("sizes", [[0], [1], [], [10, 0, 100_000], [1 << 23], [70_000] * 5])
    def test_segments_come_back(self, backend: Backend, sizes: list[int]) -> None:
        key = SegmentKey("loop", 3, 7, new_attempt())
        pieces = [np.random.default_rng(n).bytes(n) for n in sizes]
        assert backend.get_segment(key) is None
        backend.put_segment(key, pieces)
        arrays = backend.get_segment(key)
        assert arrays is not None
        assert b"".join(array.tobytes() for array in arrays) == b"".join(pieces)
        assert not any(array.flags.writeable for array in arrays)

    def test_duplicate_attempts_stand_beside_each_other(self, backend: Backend) -> None:
        keys = [SegmentKey("loop", 0, 1, new_attempt()) for _ in range(2)]
        for key, data in zip(keys, (b"one", b"two"), strict=True):
            backend.put_segment(key, [data])
        assert sorted(backend.list_segments("loop")) == sorted(keys)
        assert [content(backend, key) for key in keys] == [b"one", b"two"]

    def test_arrays_outlive_deletion_overwriting_and_closing(self, store: Store) -> None:
        backend = store.backend
        keys = [SegmentKey("loop", 0, n, new_attempt()) for n in range(20)]
        backend.put_segment(keys[0], [b"x" * 300_000])
        arrays = backend.get_segment(keys[0])
        assert arrays is not None
        assert backend.delete_unreferenced(keys[:1]) == keys[:1]
        for key in keys[1:]:  # would reuse its place
            backend.put_segment(key, [b"y" * 300_000])
        assert backend.get_segment(keys[0]) is None
        store.close()
        assert b"".join(array.tobytes() for array in arrays) == b"x" * 300_000

    def test_names_are_kept_apart(self, backend: Backend) -> None:
        keys = {name: SegmentKey(name, 20, 1 << 40, new_attempt()) for name in HOSTILE_NAMES}
        for number, (name, key) in enumerate(keys.items()):
            backend.put_segment(key, [name.encode()])
            head, new = Head(f"m{number}", number, 1), NewManifest(f"m{number}", b"")
            assert backend.swap_head(name, None, head, new)
        assert backend.list_heads() == sorted(keys)
        assert sorted(backend.list_segments()) == sorted(keys.values())
        for number, (name, key) in enumerate(keys.items()):
            assert list(backend.list_segments(name)) == [key]
            assert backend.list_versions(name) == [(number, f"m{number}")]
            assert content(backend, key) == name.encode()

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

    def test_what_is_referred_to_stays(self, backend: Backend) -> None:
        """A manifest stays for a version and for its child, a segment for a manifest."""
        parent, child, other = sorted(new_attempt() for _ in range(3))
        keys = [SegmentKey("loop", k, 0, new_attempt()) for k in range(4)]
        for key in keys:
            backend.put_segment(key, [b"x" * 100_000 * (key.partition % 2)])
        uses = {parent: [keys[0].attempt], child: [keys[1].attempt, parent], other: []}
        head = Head(parent, 0, 1)
        assert backend.swap_head("loop", None, head, NewManifest(parent, b"p", uses[parent]))
        new = Head(child, 0, 1)  # it takes the place of its parent
        stored = NewManifest(child, b"c", uses[child], requires=keys[:2])
        assert backend.swap_head("loop", head, new, stored)
        assert backend.swap_head("fork", None, new)
        backend.put_manifest(other, b"", [keys[2].attempt])
        assert backend.release_manifests({child: uses[child], parent: uses[parent]}) == []
        assert backend.delete_unreferenced(keys) == keys[3:]
        assert backend.drop_head("loop", new)
        assert backend.release_manifests({child: uses[child], parent: uses[parent]}) == []
        assert backend.swap_head("fork", new, Head("next", 0, 1))
        manifests = {child: uses[child], parent: uses[parent], "absent": []}
        assert backend.release_manifests(manifests) == [child, parent, "absent"]
        assert sorted(backend.list_manifests()) == [other]
        assert backend.delete_unreferenced(keys) == [keys[0], keys[1], keys[3]]
        assert list(backend.list_segments()) == [keys[2]]

    def test_a_version_forgotten_refers_to_nothing(self, backend: Backend) -> None:
        head = None
        for iteration in range(3):
            new = Head(f"m{iteration}", iteration, 1)
            assert backend.swap_head("loop", head, new, NewManifest(f"m{iteration}", b""))
            head = new
        wanted: dict[str, list[str]] = {f"m{iteration}": [] for iteration in range(3)}
        assert backend.release_manifests(wanted) == []
        backend.forget_versions("loop", [0, 2])
        assert backend.release_manifests(wanted) == ["m0"]
        assert head is not None
        assert backend.swap_head("loop", head, Head("new", 7, 2), RESTART)
        assert sorted(backend.release_manifests(wanted)) == ["m0", "m1", "m2"]
        assert list(backend.list_manifests()) == ["new"]

    def test_a_commit_needs_its_segments(self, backend: Backend) -> None:
        keys = [SegmentKey(loop, 0, 1, new_attempt()) for loop in ("loop", "other", "loop")]
        for key in keys:
            backend.put_segment(key, [b"x"])
        backend.delete_unreferenced(keys[1:2])
        head = Head("m", 1, 1)
        with pytest.raises(MissingError, match=keys[1].attempt):
            backend.swap_head("loop", None, head, NewManifest("m", b"", requires=keys))
        assert backend.get_head("loop") is None
        assert backend.list_versions("loop") == []
        assert backend.get_manifest("m") is None
        assert not backend.swap_head("loop", head, head, NewManifest("m", b"", requires=keys))
        assert backend.swap_head("loop", None, head, NewManifest("m", b"", requires=keys[::2]))

    def test_a_commit_stores_its_segments(self, backend: Backend) -> None:
        keys = [SegmentKey("loop", k % 2, k, new_attempt()) for k in range(4)]
        data = [bytes([k]) * size for k, size in enumerate((10, 70_000, 300_000, 2_000_000))]
        pieces: list[tuple[SegmentKey, list[bytes | memoryview]]]
        pieces = [(key, [d[:4], memoryview(d)[4:]]) for key, d in zip(keys, data, strict=True)]
        absent = SegmentKey("loop", 0, 1, new_attempt())
        head, uses = Head("m", 1, 1), [key.attempt for key in keys]
        new = NewManifest("m", b"", uses, segments=pieces)
        with pytest.raises(MissingError, match=absent.attempt):
            backend.swap_head("loop", None, head, replace(new, requires=[absent]))
        assert backend.get_segment(keys[0]) is None
        assert not backend.swap_head("loop", head, head, new)
        assert backend.swap_head("loop", None, head, new)
        child = NewManifest("n", b"", uses[:1], requires=keys)
        assert backend.swap_head("loop", head, Head("n", 2, 1), child)
        for key, expected in zip(keys, data, strict=True):
            assert b"".join(map(bytes, backend.get_segment(key) or [])) == expected
        assert list(backend.list_segments("loop")) == sorted(keys)
        assert backend.delete_unreferenced(keys) == []
        backend.forget_versions("loop", [1])
        assert backend.release_manifests({"m": uses}) == ["m"]
        assert sorted(backend.delete_unreferenced(keys)) == sorted(keys[1:])
        assert list(backend.list_segments("loop")) == keys[:1]

    def test_leases_are_listed_by_themselves(self, backend: Backend) -> None:
        for name in ("lease.a", "m", "lease.b", "mm"):
            backend.put_manifest(name, b"")
        assert sorted(backend.list_manifests("lease.")) == ["lease.a", "lease.b"]
        assert sorted(backend.list_manifests()) == ["lease.a", "lease.b", "m", "mm"]
        backend.delete_manifests(["lease.a", "mm"])
        assert sorted(backend.list_manifests()) == ["lease.b", "m"]

    def test_the_clock_runs_as_this_one_does(self, backend: Backend) -> None:
        assert abs(backend.now() - time.time()) < 30  # a server on this host, or this host

    def test_a_head_moves_only_from_what_is_expected(self, backend: Backend) -> None:
        claimed, first, second = Head("", -1, 1), Head("m", 0, 1), Head("n", 1, 1)
        assert backend.get_head("loop") is None
        assert not backend.swap_head("loop", first, second)
        assert backend.swap_head("loop", None, claimed)
        assert not backend.swap_head("loop", None, first)
        assert backend.list_versions("loop") == []
        assert backend.swap_head("loop", claimed, first)
        assert not backend.swap_head("loop", claimed, second, NewManifest("n", b""))
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
        for iteration, newest in expected.items():
            version = None if newest is None else (newest, f"m{newest}")
            assert backend.floor("b", iteration) == version
        assert backend.floor("absent", 5) is None
        assert backend.floor("a", 399) is None
        backend.forget_versions("b", [5, 7, 1 << 40])
        assert [i for i, _ in backend.list_versions("b")] == [0, 300, 1 << 40]
        assert head is not None
        assert backend.swap_head("b", head, Head("new", 3, 2), RESTART)
        assert backend.list_versions("b") == [(3, "new")]

    def test_racing_heads_lose_no_step(self, backend: Backend) -> None:
        assert backend.swap_head("loop", None, Head("m", 0, 0))
        codes = run_together(race_heads, [(backend.address, "loop", 25)] * 3)
        assert codes == [0, 0, 0]
        assert backend.get_head("loop") == Head("m", 75, 75)


def content(backend: Backend, key: SegmentKey) -> bytes:
    """The bytes of a segment."""
    arrays = backend.get_segment(key)
    assert arrays is not None
    return b"".join(array.tobytes() for array in arrays)
