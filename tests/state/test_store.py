"""The store above the contract: versions, forks, lookups, and what it refuses."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vertexsdk.arrays.id_hash import hash_partition
from vertexsdk.arrays.packed_strings import pack_strings, unpack_strings
from vertexsdk.errors import StateError, StateInputError
from vertexsdk.state import Manifest, MissingError, OwnerError, SegmentRef, Store, open_store
from vertexsdk.state.manifests import MAX_CHAIN, live_segments
from vertexsdk.state.reading import ascending, overlay, take_rows


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"lmdb://{tmp_path}/store") as store:
        yield store


def commit(
    store: Store, loop: str, iteration: int, state: dict[int, float], *, P: int = 3, **options: Any
) -> Manifest:
    """Commit `state` as bases, or as deltas on `parent`."""
    ids = np.array(sorted(state), np.int64)
    values = np.array([state[i] for i in ids.tolist()])
    kind: Any = "delta" if options.get("parent") else "base"
    of = hash_partition(ids, P)
    refs = [
        store.put_segment(loop, p, iteration, kind, {"id": ids[of == p], "value": values[of == p]})
        for p in range(P)
    ]
    return store.commit(loop, iteration=iteration, segments=refs, **options)


def contents(store: Store, loop: str, at: int | None = None) -> dict[int, float]:
    found: dict[int, float] = {}
    for _, columns in store.read(loop, at):
        found |= dict(zip(columns["id"].tolist(), columns["value"].tolist(), strict=True))
    return found


def test_every_version_is_read_as_it_was(store: Store) -> None:
    expected = {0: {i: float(i) for i in range(100)}}
    newest = commit(store, "loop", 0, expected[0])
    for iteration in range(2, 120, 2):
        delta = {i: float(iteration * 1000 + i) for i in (iteration % 100, 7, 1000 + iteration)}
        newest = commit(store, "loop", iteration, delta, parent=newest)
        expected[iteration] = expected[iteration - 2] | delta
    assert store.versions("loop") == sorted(expected)
    assert newest.depth < MAX_CHAIN
    with open_store(store.backend.location, create=False) as fresh:
        for at in (0, 1, 2, 3, 50, 118, 500):
            want = expected[min(at // 2 * 2, 118)]
            assert contents(fresh, "loop", at) == want
            ids = [5, 7, 1002, 1100, -1]
            found = fresh.lookup("loop", ids, at)
            assert found == {i: {"value": want[i]} for i in ids if i in want}
        assert fresh.verify() == []


def test_manifests_of_small_deltas_stay_small(store: Store) -> None:
    newest = commit(store, "loop", 0, dict.fromkeys(range(50), 0.0))
    sizes = []
    for iteration in range(1, 101):
        newest = commit(store, "loop", iteration, {iteration % 50: 1.0}, parent=newest, P=1)
        sizes.append(len(newest.encode()))
    assert sorted(sizes)[80] < 1000


def test_what_live_keeps() -> None:
    def ref(kind: Any, partition: int, group: str = "") -> SegmentRef:
        from vertexsdk.state.contract import SegmentKey, new_attempt

        return SegmentRef(SegmentKey("l", partition, 0, new_attempt()), kind, group, 0, 0, "")

    before = [ref("base", 0), ref("delta", 0), ref("base", 0, "Item"), ref("base", 1)]
    before += [ref("topology", 0)]
    base, topology = ref("base", 0), ref("topology", 0)
    assert live_segments(before, [], 2) == before
    assert live_segments(before, [base], 2) == [before[2], before[3], before[4], base]
    assert live_segments(before, [topology], 2) == [*before[:4], topology]


def test_fork_shares_and_diverges(store: Store) -> None:
    main = commit(store, "main", 0, {1: 1.0, 2: 2.0})
    main = commit(store, "main", 1, {1: 10.0}, parent=main)
    before = len(list(store.backend.list_segments()))
    assert store.fork("main", "early", at=0).iteration == 0
    branch = store.fork("main", "branch")
    assert len(list(store.backend.list_segments())) == before
    commit(store, "branch", 2, {2: 20.0}, parent=branch)
    main = commit(store, "main", 2, {2: 21.0}, parent=main)
    assert contents(store, "early") == {1: 1.0, 2: 2.0}
    assert contents(store, "branch") == {1: 10.0, 2: 20.0}
    assert contents(store, "main") == {1: 10.0, 2: 21.0}
    assert contents(store, "branch", 1) == {1: 10.0, 2: 2.0}
    with pytest.raises(StateInputError, match=r"at or before iteration 0.*retained is 1"):
        store.version("branch", 0)
    with pytest.raises(StateInputError, match="already"):
        store.fork("main", "branch")
    store.delete("main")
    assert store.loops() == ["branch", "early"]
    assert contents(store, "branch") == {1: 10.0, 2: 20.0}
    assert contents(store, "early") == {1: 1.0, 2: 2.0}
    store.delete("early")
    store.delete("branch")
    assert list(store.backend.list_segments()) == []
    assert list(store.backend.list_manifests()) == []


def test_starting_anew_replaces_at_the_first_commit(store: Store) -> None:
    old = commit(store, "loop", 5, {1: 1.0}, program="p")
    store.fork("loop", "kept")
    assert contents(store, "loop") == {1: 1.0}
    commit(store, "loop", 0, {2: 2.0}, program="p")
    assert store.versions("loop") == [0]
    assert contents(store, "loop") == {2: 2.0}
    assert contents(store, "kept") == {1: 1.0}
    store.delete("kept")
    assert old.name not in list(store.backend.list_manifests())


def test_prune_drops_all_but_what_is_kept(store: Store) -> None:
    newest = commit(store, "loop", 0, {1: 0.0})
    for iteration in range(1, 30):
        if iteration % 10 == 0:
            columns = {"id": np.array([1]), "value": np.array([float(iteration)])}
            refs = [store.put_segment("loop", p, iteration, "base", columns) for p in range(3)]
            newest = store.commit("loop", iteration=iteration, segments=refs, parent=newest)
        else:
            newest = commit(store, "loop", iteration, {1: float(iteration)}, parent=newest)
    assert store.prune("loop", keep=[15, 29])[-1] == 28
    assert store.versions("loop") == [15, 29]
    assert [contents(store, "loop", at)[1] for at in (15, 28, 29)] == [15.0, 15.0, 29.0]
    assert store.prune("loop") == [15]
    assert {key.iteration for key in store.backend.list_segments()} == set(range(20, 30))
    assert store.verify() == []


def test_names_are_found_without_a_scan(store: Store) -> None:
    names = ["ann", "böb", "", "\N{GRINNING FACE}" * 30, *(f"v{i}" for i in range(50_000))]
    refs = []
    for partition in range(2):
        mine = names[partition::2]
        offsets, utf8 = pack_strings(mine)
        columns = {
            "id": np.arange(len(mine)) * 2 + partition,
            "rank": np.arange(len(mine), dtype=float),
            "name.offsets": offsets,
            "name.bytes": utf8,
        }
        refs.append(store.put_segment("loop", partition, 0, "base", columns))
    store.commit("loop", iteration=0, segments=refs, ids="str")
    wanted = ["ann", "böb", "", "v49999", "absent"]
    expected = {name: {"rank": float(names.index(name) // 2)} for name in wanted[:-1]}
    assert store.lookup("loop", wanted) == expected
    for partition, columns in store.read("loop"):
        found = unpack_strings(columns["name.offsets"], columns["name.bytes"])
        assert dict(zip(columns["id"].tolist(), found, strict=True)) == {
            2 * k + partition: name for k, name in enumerate(names[partition::2])
        }
    with pytest.raises(StateInputError, match="its ids are names"):
        store.lookup("loop", [3])


def test_strings_vectors_and_objects_in_the_state(store: Store) -> None:
    columns = {
        "id": np.arange(3),
        "vector": np.arange(6.0).reshape(3, 2),
        "label": np.array(["a", "", "ü"], object),
        "thing": np.array([{1}, None, (1, 2)], object),
        "flag": np.array([True, False, True]),
    }
    ref = store.put_segment("loop", 0, 0, "base", columns)
    store.commit("loop", iteration=0, segments=[ref])
    with pytest.raises(StateError, match="trusted=True"):
        store.lookup("loop", [0])
    found = store.lookup("loop", [2], trusted=True)[2]
    assert found["vector"].tolist() == [4.0, 5.0]
    assert (found["label"], found["thing"], found["flag"]) == ("ü", (1, 2), True)
    assert store.lookup("loop", [0], fields=["label"]) == {0: {"label": "a"}}
    ((_, state),) = store.read("loop", trusted=True)
    assert state["label"][np.argsort(state["id"])].tolist() == ["a", "", "ü"]


def test_overlay_is_the_same_with_and_without_its_short_cut() -> None:
    random = np.random.default_rng(5)
    for _ in range(100):
        layers: list[dict[str, Any]] = []
        model: dict[int, tuple[float, str]] = {}
        for depth in range(random.integers(1, 5)):
            pool = np.arange(12) if depth == 0 or random.random() < 0.5 else np.arange(20)
            ids = np.sort(random.permutation(pool)[: random.integers(0, pool.size + 1)])
            texts = [f"n{i}" for i in ids]
            offsets, utf8 = pack_strings(texts)
            values = random.random(ids.size)
            layer = {"id": ids, "x": values, "name.offsets": offsets, "name.bytes": utf8}
            layers.append(layer)
            model |= {i: (v, t) for i, v, t in zip(ids.tolist(), values, texts, strict=True)}
        merged = overlay(layers)
        merged = take_rows(merged, ascending(merged["id"]))
        names = unpack_strings(merged["name.offsets"], merged["name.bytes"])
        assert merged["id"].tolist() == sorted(model)
        assert merged["x"].tolist() == [model[i][0] for i in sorted(model)]
        assert names == [model[i][1] for i in sorted(model)]


def test_another_program_or_schema_is_refused(store: Store) -> None:
    version = commit(store, "loop", 0, {1: 1.0}, program="pagerank", schema={"rank": "float64"})
    with open_store(store.backend.location) as other:
        with pytest.raises(OwnerError, match="belongs to program pagerank, not to wcc") as caught:
            other.claim("loop", program="wcc")
        assert caught.value.exit_status == 2
        with pytest.raises(OwnerError, match="other state fields"):
            other.claim("loop", program="pagerank", schema={"rank": "int64"})
        with pytest.raises(OwnerError):
            commit(other, "loop", 0, {1: 1.0}, program="wcc")
        assert other.head("loop") == version
        assert other.claim("loop", program="pagerank", schema={"rank": "float64"}) == version


def test_commits_that_do_not_fit_are_refused(store: Store) -> None:
    first = commit(store, "loop", 3, {1: 1.0})
    second = commit(store, "loop", 4, {1: 2.0}, parent=first)
    with pytest.raises(StateInputError, match="not its newest"):
        commit(store, "loop", 5, {1: 2.0}, parent=first)
    with pytest.raises(StateInputError, match="cannot go back"):
        commit(store, "loop", 3, {1: 2.0}, parent=second)
    ids = np.array([2, 1, 2])
    with pytest.raises(StateError, match="an id twice"):
        store.put_segment("loop", 0, 0, "base", {"id": ids})
    with pytest.raises(StateError, match='"id"'):
        store.put_segment("loop", 0, 0, "base", {"value": ids})
    with pytest.raises(StateError, match="'value' has 1 rows"):
        store.put_segment("loop", 0, 0, "base", {"id": ids[:0], "value": ids[:1]})
    with pytest.raises(StateInputError, match="kind"):
        store.put_segment("loop", 0, 0, "other", {"id": ids})  # type: ignore[arg-type]
    assert store.head("loop") == second


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "x" * 201, "\udcff"])
def test_names_that_no_backend_could_keep_are_refused(store: Store, name: str) -> None:
    with pytest.raises(StateInputError, match="cannot name a loop"):
        store.claim(name)


def test_unknown_loops_name_those_there_are(store: Store) -> None:
    commit(store, "ranks", 0, {1: 1.0})
    store.claim("empty")
    assert store.loops() == ["ranks"]
    for act in (store.version, store.delete, lambda name: list(store.read(name))):
        with pytest.raises(StateInputError, match=r"no loop 'rank'.*'ranks'"):
            act("rank")
    with pytest.raises(StateInputError, match="its ids are integers"):
        store.lookup("ranks", ["1"])
    with pytest.raises(StateInputError, match="its ids are integers of 64 bits"):
        store.lookup("ranks", [1 << 63])


def test_missing_pieces_are_named(store: Store) -> None:
    version = commit(store, "loop", 0, {1: 1.0}, P=1)
    store.backend._delete_segments([version.segments[0].key])  # type: ignore[attr-defined]
    with pytest.raises(MissingError, match=version.segments[0].key.attempt):
        list(store.read("loop"))
    assert len(store.verify()) == 1
    store.backend.delete_manifests([version.name])
    with open_store(store.backend.location) as fresh, pytest.raises(MissingError):
        fresh.head("loop")


def test_refs_and_stores_travel(store: Store) -> None:
    version = commit(store, "loop", 0, {1: 1.0}, aggregates={"sum": 1.0}, statistics={"hops": 3})
    ref = version.segments[0]
    assert SegmentRef.from_json(json.loads(json.dumps(ref.to_json()))) == ref
    assert pickle.loads(pickle.dumps(ref)) == ref
    with pickle.loads(pickle.dumps(store)) as other:
        assert other.head("loop") == version
        assert other.head("loop").statistics == {"hops": 3}


@pytest.mark.full
def test_reading_imports_little() -> None:
    heavy = "[m for m in ('numba', 'pyspark', 'pandas') if m in sys.modules]"
    code = (
        "import sys, vertexsdk.backends.lmdb, vertexsdk.state, vertexsdk.graph.topology.topology; "
        f"print({heavy})"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    assert out.stdout.strip() == "[]"
