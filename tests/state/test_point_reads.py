"""Point reads touch few blocks, and find what a scan finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk.arrays.arrow_table import Table, encode
from vertexsdk.arrays.id_hash import key_groups
from vertexsdk.arrays.packed_strings import pack_strings
from vertexsdk.state import CorruptError, open_store, reading
from vertexsdk.state.contract import CanReadParts
from vertexsdk.state.reading import by_key_group, find_ids, find_names, locate
from vertexsdk.state.version_reader import RemoteTable


def grouped(columns: dict[str, Any]) -> bytes:
    stored, groups = by_key_group(columns)
    return b"".join(encode(stored, groups=groups))


@pytest.mark.parametrize("rows", [0, 1, 63, 130, 100_000])
@pytest.mark.parametrize("spread", ["even", "powers", "negative"])
def test_ids_are_found_in_their_key_groups(rows: int, spread: str) -> None:
    random = np.random.default_rng(rows)
    ids = {
        "even": np.arange(rows) * 3,
        "powers": np.unique((2.0 ** random.uniform(0, 62, rows)).astype(np.int64)),
        "negative": np.arange(rows) - rows // 2,
    }[spread]
    table = Table(grouped({"id": ids, "value": ids / 3}))
    stored = table.column("id", verify=True)
    assert (np.diff(key_groups(stored).astype(int)) >= 0).all()
    wanted = np.concatenate([ids[::997], ids[::997] + 1, [-5, 1 << 62, 0, -(1 << 63)]])
    expected = [int(np.argmax(stored == i)) if (stored == i).any() else -1 for i in wanted]
    assert locate(stored, wanted).tolist() == expected
    assert find_ids(table, wanted).tolist() == expected
    assert [int(find_ids(table, wanted[k : k + 1])[0]) for k in range(wanted.size)] == expected


def test_names_are_found_in_their_key_groups() -> None:
    names = ["", "é", "\N{GRINNING FACE}", *(f"v{k}" for k in range(5000))]
    offsets, utf8 = pack_strings(names)
    columns = {"id": np.arange(len(names)), "name.offsets": offsets, "name.bytes": utf8}
    table = Table(grouped(columns))
    rows = find_names(table, [*names, "absent"])
    assert rows.pop() == -1
    assert table.column("id")[rows].tolist() == list(range(len(names)))


def test_a_point_read_checks_its_key_group_only() -> None:
    n = 1_000_000
    good = grouped({"id": np.arange(n), "value": np.arange(n) / 3})
    bad = bytearray(good)
    ids = Table(good).column("id")
    bad[Table(good)._places["id"][2] + 4 * n] ^= 1  # in the row n / 2
    with pytest.raises(CorruptError, match="'id'"):
        find_ids(Table(bad), ids[n // 2 : n // 2 + 1])
    far = np.concatenate([np.arange(0, n // 2 - 10_000, 9973), np.arange(n // 2 + 10_000, n, 9973)])
    assert [int(find_ids(Table(bad), ids[k : k + 1])[0]) for k in far] == far.tolist()


def test_a_remote_segment_is_read_in_parts() -> None:
    n = 1_000_000
    raw = grouped({"id": np.arange(n), "value": np.arange(n) / 3})
    asked: list[list[tuple[int, int]]] = []

    def read(places: list[tuple[int, int]]) -> list[bytes]:
        asked.append(places)
        return [raw[low:high] for low, high in places]

    table = RemoteTable(read, len(raw))
    table.check_rows()
    row = int(find_ids(table, np.array([777_777]))[0])
    assert table.row("value", row) == 777_777 / 3
    assert len(asked) <= 5
    assert sum(high - low for places in asked for low, high in places) < 300_000
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


def test_the_order_of_rows_is_remembered_as_long_as_read_only_ids() -> None:
    before = len(reading._orders)
    random = np.random.default_rng(seed())
    for writeable in (True, False):
        for _ in range(3):  # which may have the same place in memory
            ids = np.unique(random.integers(0, 1 << 40, reading._MANY * 2))
            ids.flags.writeable = writeable
            expected = ids[np.argsort(key_groups(ids), kind="stable")]
            for _ in range(2):
                columns, starts = by_key_group({"id": ids, "twice": ids * 2})
                assert (columns["id"] == expected).all()
                assert (columns["twice"] == 2 * expected).all()
                assert starts[-1] == len(ids)
            assert len(reading._orders) == before + (not writeable)
            del ids
    assert len(reading._orders) == before
