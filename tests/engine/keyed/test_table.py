"""A keyed table equals a dict, after any changes, and after a snapshot that is read again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk import Map
from vertexsdk.arrays.packed_strings import pack_strings
from vertexsdk.engine.keyed import table as table_module
from vertexsdk.engine.keyed.table import KeyedTable
from vertexsdk.program.keyed import ABSENT, KINDS, TableSpec
from vertexsdk.program.keyed_state import Journal
from vertexsdk.state.reading import TOMBSTONE, overlay

FIELDS: dict[str, Callable[[type], Map]] = {
    "one": lambda key: Map(key, float),
    "several": lambda key: Map(key, count=int, last=float, seen=bool, text=str, data=bytes),
    "text": lambda key: Map(key, str),
    "data": lambda key: Map(key, bytes),
}
KEYS: dict[str, list[Any]] = {
    "int": [*range(40), -1, (1 << 63) - 1, -(1 << 63)],
    "str": [*map(str, range(40)), "", "\0", "ä", "\ud800"],
}


def packed(key: str, keys: list[Any]) -> Any:
    return np.array(keys, np.int64) if key == "int" else pack_strings(keys)


def value(chance: random.Random, fields: str) -> Any:
    if fields == "one":
        return chance.choice([0.0, -0.0, float("inf"), chance.random()])
    text = chance.choice(["", "\0", "\ud800", "ä", str(chance.random())])
    count = chance.choice([0, (1 << 63) - 1, -(1 << 63)])
    data = chance.choice([b"", b"\0", b"\xff", b"a\0", text.encode("utf-8", "surrogatepass")])
    if fields in ("text", "data"):
        return text if fields == "text" else data
    return count, chance.random(), chance.random() < 0.5, text, data


def content(table: KeyedTable) -> dict[Any, Any]:
    """All rows, by key."""
    keys = KEYS[table.spec.key]
    rows, places = table.find(packed(table.spec.key, keys), np.zeros(len(keys), np.bool_))
    values = [*table.read(rows), ABSENT]
    return {k: values[p] for k, p in zip(keys, places.tolist(), strict=True) if values[p] != ABSENT}


def captured(table: KeyedTable, *, whole: bool) -> dict[str, Any]:
    """What a snapshot of a table has."""
    capture = table.capture(whole=whole)
    while table.copy_slice():
        pass
    return capture.result()


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("key", KEYS)
def test_a_table_is_a_dict_that_snapshots_bring_back(key: str, fields: str) -> None:
    chance = random.Random(seed())
    spec = TableSpec("table", FIELDS[fields](KINDS[key]))
    table, expected = KeyedTable(spec), dict[Any, Any]()
    layers: list[dict[str, Any]] = []
    for step in range(60):
        keys = [chance.choice(KEYS[key]) for _ in range(chance.choice([0, 1, 20, 100]))]
        add = np.array([chance.random() < 0.7 for _ in keys], np.bool_)
        rows, places = table.find(packed(key, keys), add)
        assert len(set(rows.tolist())) == len(rows)
        values = table.read(rows)
        for k, place in zip(keys, places.tolist(), strict=True):
            assert (values[place] if place >= 0 else ABSENT) == expected.get(k, ABSENT)
        for k, place in zip(keys, places.tolist(), strict=True):
            if place >= 0:
                values[place] = ABSENT if chance.random() < 0.3 else value(chance, fields)
                expected.pop(k, None)
                if values[place] is not ABSENT:
                    expected[k] = values[place]
        table.write(rows, values)
        assert len(table) == len(expected)
        if chance.random() < 0.4:
            whole = not layers or chance.random() < 0.2
            layers = [*([] if whole else layers), captured(table, whole=whole)]
            if whole:
                assert TOMBSTONE not in layers[0]
            assert content(table) == expected
            columns = overlay(layers)
            again = KeyedTable(spec)
            again.restore(columns, np.ones(len(columns["id"]), np.bool_))
            assert content(again) == expected
            if step % 3 == 0:
                table = again
    assert expected


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("key", KEYS)
def test_a_capture_has_the_rows_of_its_instant(
    key: str, fields: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is written, removed or moved while its rows are copied."""
    chance = random.Random(seed())
    monkeypatch.setattr(table_module, "SLICE", 3)
    spec = TableSpec("table", FIELDS[fields](KINDS[key]))
    table, layers = KeyedTable(spec), list[dict[str, Any]]()
    for _ in range(12):
        write(table, chance, fields, 30)
        whole = not layers or chance.random() < 0.3
        expected, capture = content(table), table.capture(whole=whole)
        for _ in range(chance.choice([0, 2, 40])):
            write(table, chance, fields, chance.choice([1, 5, 30]))
            if chance.random() < 0.2:  # keys without a value, which are dropped when many are
                more = [str(chance.random()) if key == "str" else chance.randrange(1 << 40)
                        for _ in range(100)]  # fmt: skip
                table.find(packed(key, more), np.ones(100, np.bool_))
            if chance.random() < 0.5:
                table.copy_slice()
        fork = table.fork(Journal())
        now = content(table)
        while table.copy_slice():
            pass
        layers = [*([] if whole else layers), capture.result()]
        again, columns = KeyedTable(spec), overlay(layers)
        again.restore(columns, np.ones(len(columns["id"]), np.bool_))
        assert content(again) == expected
        write(table, chance, fields, 5)
        assert content(fork) == now
        assert not (fork.flags & table_module.MARKED).any()


def write(table: KeyedTable, chance: random.Random, fields: str, count: int) -> None:
    """Set and remove values of drawn keys."""
    keys = chance.choices(KEYS[table.spec.key], k=count)
    rows, _ = table.find(packed(table.spec.key, keys), np.ones(count, np.bool_))
    values = [ABSENT if chance.random() < 0.3 else value(chance, fields) for _ in rows]
    table.write(rows, values)


def test_rows_that_were_looked_for_do_not_make_a_table_grow() -> None:
    table = KeyedTable(TableSpec("table", Map(int, int)))
    for k in range(300):
        keys = np.arange(40 * k, 40 * k + 40)
        rows, _ = table.find(keys, np.ones(40, np.bool_))
        values = table.read(rows)
        values[0] = k
        table.write(rows, [*values[:1], *[ABSENT] * 39])
    assert len(table) == 300
    assert table._index.capacity < 2000


@pytest.mark.parametrize("key", KEYS)
def test_a_table_has_room_for_its_keys_not_for_all_that_are_looked_for(key: str) -> None:
    table = KeyedTable(TableSpec("table", Map(KINDS[key], int)))
    keys = KEYS[key] * 500
    rows, places = table.find(packed(key, keys), np.ones(len(keys), np.bool_))
    assert table._index.capacity < 200
    assert places.tolist() == list(range(len(KEYS[key]))) * 500
    table.write(rows, list(range(len(rows))))
    assert content(table) == {k: n for n, k in enumerate(KEYS[key])}


def test_ids_of_strings_differ_across_partitions() -> None:
    names = [str(k) for k in range(2000)]
    spec = TableSpec("table", Map(str, int))
    ids: set[int] = set()
    from vertexsdk.arrays.id_hash import owner_of_groups
    from vertexsdk.state.reading import name_groups

    owners = owner_of_groups(name_groups(*pack_strings(names)), 3)
    for p in range(3):
        table = KeyedTable(spec)
        mine = [name for name, owner in zip(names, owners.tolist(), strict=True) if owner == p]
        rows, _ = table.find(pack_strings(mine), np.ones(len(mine), np.bool_))
        table.write(rows, [1] * len(rows))
        ids.update(captured(table, whole=True)["id"].tolist())
    assert len(ids) == len(names)
