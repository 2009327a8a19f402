"""Deltas in which vertices go: no reader sees these, whichever way it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vertexsdk.state import open_store
from vertexsdk.state.reading import TOMBSTONE


def test_vertices_that_went_are_not_read(tmp_path: Path) -> None:
    with open_store(f"lmdb://{tmp_path}/s") as store:
        ids = np.arange(1, 6)
        base = store.put_segment("a", 0, 1, "base", {"id": ids, "x": ids * 1.5})
        first = store.commit("a", iteration=1, segments=[base], partitions=1)
        some = {"id": np.array([2, 4, 9]), "x": np.array([0.0, 8.0, 9.0])}
        some[TOMBSTONE] = np.array([True, False, False])
        delta = store.put_segment("a", 0, 2, "delta", some)
        second = store.commit("a", iteration=2, segments=[delta], parent=first)
        [(_, columns)] = store.read("a", fields=["x"])
        values = dict(zip(columns["id"].tolist(), columns["x"].tolist(), strict=True))
        assert values == {1: 1.5, 3: 4.5, 4: 8.0, 5: 7.5, 9: 9.0}
        assert TOMBSTONE not in columns
        assert store.lookup("a", [2, 4]) == {4: {"x": 8.0}}
        assert store.diff(("a", 1), ("a", 2)).removed.tolist() == [2]
        back = store.put_segment("a", 0, 3, "delta", {"id": np.array([2]), "x": np.array([7.0])})
        third = store.commit("a", iteration=3, segments=[back], parent=second)
        assert store.lookup("a", [2], third) == {2: {"x": 7.0}}
        compacted = store.compact("a")
        [(_, columns)] = store.read("a", compacted)
        assert sorted(columns["id"].tolist()) == [1, 2, 3, 4, 5, 9]
