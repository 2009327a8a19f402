"""The rows of keys equal those that a dict gives, for integers and for any bytes of UTF-8."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk.arrays.hash_index import BytesIndex, IntIndex, bytes_hash, int_hash
from vertexsdk.arrays.id_hash import key_groups
from vertexsdk.arrays.packed_strings import (
    HashedStrings,
    hash_strings,
    pack_strings,
    unpack_strings,
)
from vertexsdk.state.reading import name_groups

EDGES = [0, 1, -1, (1 << 63) - 1, -(1 << 63), 4096, 1 << 32]
TEXTS = ["", "\0", "a", "a\0", "ä", "𝔸", "\ud800", "x" * 300, "be", "eb"]


def colliding() -> list[str]:
    """Two strings of one length and one hash: a sequence of Thue and Morse, and its opposite."""
    one = [n.bit_count() % 2 for n in range(1 << 11)]
    return ["".join("ab"[bit ^ flipped] for bit in one) for flipped in (0, 1)]


def drawn(chance: random.Random, kind: str, count: int) -> list[Any]:
    """Keys of which many are equal."""
    if kind == "int":
        return [chance.choice([*EDGES, chance.randrange(-500, 500)]) for _ in range(count)]
    return [chance.choice([*TEXTS, str(chance.randrange(500))]) for _ in range(count)]


def stored(kind: str, keys: list[Any]) -> Any:
    return np.array(keys, np.int64) if kind == "int" else pack_strings(keys)


def python_keys(kind: str, keys: Any) -> list[Any]:
    return list(keys.tolist()) if kind == "int" else unpack_strings(*keys)


@pytest.mark.parametrize("kind", ["int", "str"])
def test_rows_are_those_of_a_dict(kind: str) -> None:
    chance = random.Random(seed())
    index: Any = IntIndex() if kind == "int" else BytesIndex()
    rows: dict[Any, int] = {}
    for _ in range(60):
        keys = drawn(chance, kind, chance.choice([0, 1, 7, 100]))
        add = [chance.random() < 0.5 for _ in keys]
        index.reserve(stored(kind, keys))
        answer = index.find(stored(kind, keys), np.array(add, np.bool_)).tolist()
        expected = []
        for key, adds in zip(keys, add, strict=True):
            if adds:
                rows.setdefault(key, len(rows))
            expected.append(rows.get(key, -1))
        assert answer == expected
        if chance.random() < 0.1:
            kept = sorted(chance.sample(range(len(rows)), len(rows) // 2))
            by_row = list(rows)
            index.keep(np.array(kept, np.int64))
            rows = {by_row[row]: k for k, row in enumerate(kept)}
        assert index.rows == len(rows)
    everything = np.arange(len(rows))
    assert python_keys(kind, index.keys(everything)) == list(rows)
    packed = stored(kind, list(rows))
    groups = key_groups(packed) if kind == "int" else name_groups(*packed)
    assert np.array_equal(index.groups(everything), groups)


def test_hashes_are_those_by_which_keys_are_placed() -> None:
    offsets, data = pack_strings(TEXTS)
    expected = hash_strings(offsets, data)
    for k, (low, high) in enumerate(zip(offsets, offsets[1:], strict=False)):
        assert bytes_hash(data, low, high) == int(expected[k])
    for key in EDGES:
        assert int_hash(np.int64(key)) % 4096 == int(key_groups(np.array([key]))[0])


def test_many_keys_of_one_partition_stay_quick_to_find() -> None:
    """Keys whose hashes have the same lowest bits do not crowd into one part of the index."""
    keys = np.arange(400_000, dtype=np.int64)
    mine = keys[key_groups(keys) < 64]
    index = IntIndex()
    index.reserve(mine)
    rows = index.find(mine, np.ones(len(mine), np.bool_))
    assert rows.tolist() == list(range(len(mine)))
    used = np.flatnonzero(index._slots)
    longest = np.diff(np.flatnonzero(np.diff(used) > 1)).max()
    assert longest < 100


def test_strings_of_one_hash_have_rows_of_their_own() -> None:
    one, other = colliding()
    assert len(set(hash_strings(*pack_strings([one, other])).tolist())) == 1
    index = BytesIndex()
    keys = pack_strings([one, other, one, other])
    index.reserve(keys)
    assert index.find(keys, np.array([True, False, True, True])).tolist() == [0, -1, 0, 1]
    assert index.find(keys, np.zeros(4, np.bool_)).tolist() == [0, 1, 0, 1]


def test_strings_that_differ_in_one_byte_have_rows_of_their_own() -> None:
    """Whatever their length, and if their hashes were equal."""
    for length in range(1, 35):
        texts = ["x" * length, *("x" * k + "y" + "x" * (length - k - 1) for k in range(length))]
        packed = pack_strings(texts)
        keys = HashedStrings(*packed, np.zeros(len(texts), np.uint64))
        index = BytesIndex()
        index.reserve(keys)
        assert index.find(keys, np.ones(len(texts), np.bool_)).tolist() == [*range(len(texts))]


@pytest.mark.parametrize("kind", ["int", "str"])
def test_keys_for_which_there_is_no_room_are_left_for_later(kind: str) -> None:
    chance = random.Random(seed())
    keys = drawn(chance, kind, 1000)
    if kind == "str":
        keys = [f"{key:>{chance.randrange(30)}}" for key in keys]
    packed, add = stored(kind, keys), np.ones(1000, np.bool_)
    whole: Any = IntIndex() if kind == "int" else BytesIndex()
    whole.reserve(packed)
    index: Any = IntIndex() if kind == "int" else BytesIndex()
    rows, first, times = np.empty(1000, np.int64), 0, 0
    while (first := index.find_from(first, packed, add, rows)) < 1000:
        index.reserve(stored(kind, [keys[first]]))
        times += 1
    assert times
    assert rows.tolist() == whole.find(packed, add).tolist()
    assert index.capacity < 2 * max(index.rows, 64)
