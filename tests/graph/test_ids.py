"""Ids are replaced by the ranks that numpy gives, by bitmap and by hash table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vertexsdk.graph.topology.id_index import replace_ids

NEAR = st.lists(st.integers(-100, 1000))
FAR = st.lists(st.integers(-(2**63), 2**63 - 1))
PARTS = st.lists(st.one_of(NEAR, FAR), max_size=4)


@settings(max_examples=100, deadline=None)
@given(PARTS, PARTS, st.integers(1, 3))
def test_ranks(parts: list[list[int]], more: list[list[int]], threads: int) -> None:
    given_ids, extra = ([np.array(p, np.int64) for p in some] for some in (parts, more))
    wanted = np.unique(np.concatenate([*given_ids, *extra, np.empty(0, np.int64)]))
    arrays = [*given_ids]
    np.testing.assert_array_equal(replace_ids(arrays, extra, threads), wanted)
    assert len(arrays) == len(given_ids)
    for array, ids in zip(arrays, given_ids, strict=True):
        assert array.dtype == np.int32
        np.testing.assert_array_equal(array, np.searchsorted(wanted, ids))


@pytest.mark.parametrize("spread", [1, 0x9E3779B97F4A7C1])
def test_many_ids(spread: int) -> None:
    ids = np.random.default_rng(1).integers(0, 100_000, 300_000) * spread
    for threads in (1, 3):
        arrays = [ids[:1000], ids[1000:]]
        wanted, ranks = np.unique(ids, return_inverse=True)
        np.testing.assert_array_equal(replace_ids(arrays, threads=threads), wanted)
        np.testing.assert_array_equal(np.concatenate(arrays), ranks)


def test_int32_ids_are_replaced_in_place() -> None:
    ids = np.array([7, -3, 7], np.int32)
    arrays = [ids]
    replace_ids(arrays)
    assert arrays[0] is ids
    assert ids.tolist() == [1, 0, 1]
