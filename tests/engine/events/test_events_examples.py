"""The examples of the events level and of ingesters, and what an ingester refuses."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.event_hops import engine_in_process, state_of
from tests.support.example_modules import example_module
from vertexsdk import Changes, Deltas, Ingester, InputError
from vertexsdk.engine.commands import QUIET, Command
from vertexsdk.graph.changes.changes import ADD, CHANGE, REMOVE
from vertexsdk.graph.changes.deltas import Sent
from vertexsdk.loops.change_log import concatenate
from vertexsdk.program.program import Program


@pytest.mark.parametrize("partitions", [1, 2])
def test_means_are_those_of_the_nearest_points(partitions: int) -> None:
    module, rng = example_module("live_means"), random.Random(4)
    program = Program(module.Means)
    engine = engine_in_process(
        program, module.edges(3), params={"centres": 3}, partitions=partitions
    )
    ingester, points = module.Points(3), list[tuple[float, float]]()
    for _ in range(4):
        new = [(rng.gauss(c, 2.0), rng.gauss(-c, 2.0)) for c in (0, 9, 30) for _ in range(7)]
        points += new
        engine.execute(
            Command(
                ingester.batch(f"{x!r} {y!r}" for x, y in rng.sample(new, len(new))), budget=QUIET
            )
        )
        found = state_of(engine)
        at = [(found[c]["x"], found[c]["y"]) for c in range(3)]
        groups: list[list[tuple[float, float]]] = [[], [], []]
        for x, y in points:
            groups[min(range(3), key=lambda c: (x - at[c][0]) ** 2 + (y - at[c][1]) ** 2)].append(
                (x, y)
            )
        for c, group in enumerate(groups):
            assert found[c]["size"] == len(group) > 0
            for side in (0, 1):
                mean = sum(p[side] for p in group) / len(group)
                assert at[c][side] == pytest.approx(mean, abs=1e-9)


class Shop(Ingester):
    def ingest(self, record: Any) -> None:
        if record["what"] == "buys":
            self.addEdge(record["who"], record["item"])
            self.changeEdge(record["who"], record["item"], 2.5)
            self.send(record["item"], "SOLD", record)
        elif record["what"] == "returns":
            self.removeEdge(record["who"], record["item"])
        else:
            self.send(record["item"], record["what"])


def test_an_ingester_makes_deltas_in_order() -> None:
    buys = {"what": "buys", "who": 1, "item": 2}
    batch = Shop().batch(
        [{"what": "SEEN", "item": 7}, buys, {"what": "returns", "who": 1, "item": 2}]
    )
    assert batch.kind.tolist() == [ADD, CHANGE, REMOVE]
    assert str(batch.value.tolist()) == "[nan, 2.5, nan]"
    assert batch.sent == (Sent(0, 7, "SEEN"), Sent(2, 2, "SOLD", buys))
    assert batch.places == ("Shop, record 2",) * 2 + ("Shop, record 3",)
    order = [k if s is None else s.kind for k, s in batch.steps()]
    assert order == ["SEEN", 0, 1, "SOLD", 2]
    assert len(batch) == 5
    assert len(Shop().batch([])) == 0
    names = Shop().batch([{"what": "SEEN", "item": "tea"}])
    assert names.sent[0].vertex == "tea"
    mixed = Shop().batch([buys, {"what": "SEEN", "item": "tea"}])
    assert (mixed.source.to_pylist(), mixed.sent[1].vertex) == (["1", "1"], "tea")
    assert mixed.sent[0].vertex == "2"


def test_parts_and_wholes_of_batches() -> None:
    rng = random.Random(2)
    rows: list[Any] = [
        ("send", k, "NO", k) if rng.random() < 0.5 else ("+", k, 1) for k in range(20)
    ]

    def listed(batch: Any) -> list[Any]:
        changes = Deltas.of_changes(batch)
        ends = changes.source.to_pylist()
        return [ends[k] if s is None else (s.vertex, s.value) for k, s in changes.steps()]

    whole = Deltas.mixed(rows)
    wanted = [row[1] if row[0] == "+" else (row[1], row[3]) for row in rows]
    assert listed(whole) == wanted
    for low, high in [(0, 5), (5, 5), (3, 20), (0, 20), (19, 30)]:
        assert listed(whole[low:high]) == wanted[low:high]
    parts = [whole[k : k + 3] for k in range(0, 20, 3)]
    assert listed(concatenate([*parts, Changes.of([("+", 99, 1)])])) == [*wanted, 99]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([{"what": "SEEN", "item": 7}, {}], "Shop, record 2: KeyError: 'what'"),
        ([{"what": "SEEN", "item": 1.5}], "Shop, record 1: the ids of changes must be integers or"),
        ([{"what": "", "item": 1}], "Shop, record 1: a delta's kind is ''; it must be a string"),
        ([{"what": 5, "item": 1}], "Shop, record 1: a delta's kind is 5"),
        ([{"what": "A", "item": 2**63}], "Shop, record 1: an id of the changes is beyond int64"),
    ],
)
def test_records_that_are_no_deltas(records: list[Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Shop().batch(records)


def test_an_ingester_must_say_what_it_does() -> None:
    with pytest.raises(NotImplementedError, match="Ingester must define ingest"):
        Ingester().batch([1])
