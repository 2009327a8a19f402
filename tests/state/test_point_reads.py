"""Point reads touch few blocks, and find what a scan finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vertexsdk.arrays.column_codec import encode_bytes
from vertexsdk.arrays.column_table import Table
from vertexsdk.state import CorruptError, open_store
from vertexsdk.state._remote_segment import RemoteTable
from vertexsdk.state.contract import CanReadParts


@pytest.mark.parametrize("spread", ["even", "lumps", "powers", "equal"])
def test_search_is_searchsorted(spread: str) -> None:
    random = np.random.default_rng(1)
    n = 100_000
    values = {
        "even": np.arange(n) * 3,
        "lumps": np.sort(np.repeat(random.integers(0, 1 << 60, 50), n // 50) + np.arange(n)),
        "powers": np.sort((2.0 ** random.uniform(0, 62, n)).astype(np.int64)),
        "equal": np.sort(random.integers(0, 5, n)),
    }[spread]
    table = Table(encode_bytes({"id": values}))
    wanted = np.concatenate([values[::9973], values[::9973] + 1, [-5, values[-1], 1 << 62, 0]])
    for one in wanted:
        found = table.search("id", np.array([one]))
        assert found.tolist() == [int(np.searchsorted(values, one))]


def test_a_remote_segment_is_read_in_parts() -> None:
    n = 1_000_000
    raw = encode_bytes({"id": np.arange(n), "value": np.arange(n) / 3})
    asked: list[tuple[int, int]] = []

    def read(places: list[tuple[int, int]]) -> list[bytes]:
        asked.extend(places)
        return [raw[low:high] for low, high in places]

    table = RemoteTable(read, len(raw))
    row = int(table.search("id", np.array([777_777]))[0])
    assert table.row("value", row) == 777_777 / 3
    assert len(asked) <= 6
    assert sum(high - low for low, high in asked) < 300_000
    raw = raw[:-100] + b"\xff" + raw[-99:]
    with pytest.raises(CorruptError):
        RemoteTable(read, len(raw)).row("value", n - 1)


@pytest.mark.parametrize("which", ["redis_url", "postgres_url"])
def test_parts_of_segments_on_servers(which: str, request: pytest.FixtureRequest) -> None:
    n = 1_500_000
    store = open_store(request.getfixturevalue(which))
    ids = np.arange(n) * 2
    names = np.array([f"v{i % 97}" for i in range(n)], object)
    columns: dict[str, Any] = {"id": ids, "value": ids / 3, "text": names}
    ref = store.put_segment("loop", 0, 0, "base", columns)
    backend = store.backend
    assert isinstance(backend, CanReadParts)
    read, pieces = backend.open_segment(ref.key), backend.get_segment(ref.key)
    assert read is not None
    assert pieces is not None
    whole = b"".join(piece.tobytes() for piece in pieces)
    places = [(0, 10), (ref.bytes - 5, ref.bytes), (8_388_600, 16_777_300), (262_140, 262_150)]
    assert read(places) == [whole[low:high] for low, high in places]
    store.commit("loop", iteration=0, segments=[ref])
    found = store.lookup("loop", [0, 1, 999_998, 2 * n - 2, 2 * n])
    assert found == {
        i: {"value": i / 3, "text": f"v{i // 2 % 97}"} for i in (0, 999_998, 2 * n - 2)
    }
    store.close()
