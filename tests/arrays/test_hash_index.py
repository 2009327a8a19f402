"""The rows of keys equal those that a dict gives, for integers and for any bytes of UTF-8."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk.arrays.hash_index import BytesIndex, IntIndex, _bytes_hash, _int_hash
from vertexsdk.arrays.id_hash import key_groups
from vertexsdk.arrays.packed_strings import hash_strings, pack_strings, unpack_strings
from vertexsdk.state.reading import name_groups

EDGES = [0, 1, -1, (1 << 63) - 1, -(1 << 63), 4096, 1 << 32]
TEXTS = ["", "\0", "a", "a\0", "ä", "𝔸", "\ud800", "x" * 300, "be", "eb"]


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
        assert _bytes_hash(data, low, high) == int(expected[k])
    for key in EDGES:
        assert _int_hash(np.int64(key)) % 4096 == int(key_groups(np.array([key]))[0])


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
