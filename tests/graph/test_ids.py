"""An index gives the ranks that numpy gives, by bitmap and by hash table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vertexsdk.graph._id_index import Index

NEAR = st.lists(st.integers(-100, 1000))
FAR = st.lists(st.integers(-(2**63), 2**63 - 1))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(NEAR, FAR), max_size=4), st.integers(1, 3))
def test_ranks(parts: list[list[int]], threads: int) -> None:
    arrays = [np.array(p, np.int64) for p in parts]
    index = Index.build(arrays, threads)
    wanted = np.unique(np.concatenate([*arrays, np.empty(0, np.int64)]))
    np.testing.assert_array_equal(index.ids, wanted)
    for array in arrays:
        np.testing.assert_array_equal(index.of(array), np.searchsorted(wanted, array))


@pytest.mark.parametrize("spread", [1, 0x9E3779B97F4A7C1])
def test_many_ids(spread: int) -> None:
    """Enough to grow the table several times."""
    ids = np.random.default_rng(1).integers(0, 100_000, 300_000) * spread
    for threads in (1, 3):
        index = Index.build([ids[:1000], ids[1000:]], threads)
        wanted, ranks = np.unique(ids, return_inverse=True)
        np.testing.assert_array_equal(index.ids, wanted)
        np.testing.assert_array_equal(index.of(ids), ranks)


def test_int32_ids_may_be_replaced_in_place() -> None:
    ids = np.array([7, -3, 7], np.int32)
    index = Index.build([ids])
    assert index.of(ids, ids) is ids
    assert ids.tolist() == [1, 0, 1]
