"""What an events loop writes to a store: its state, and checkpoints to go on from."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.engine.events.events_programs import Least, Steps, Weights, weights
from tests.support.event_hops import engine_in_process, mail_of, state_of
from tests.support.random_changes import Edges, random_rows
from vertexsdk import Deltas
from vertexsdk.engine.commands import QUIET, Budget, Command
from vertexsdk.program.program import Program
from vertexsdk.state import Store, open_store
from vertexsdk.state.version_writer import MAX_DELTAS


def written(store: Store, loop: str, manifest: Any = None) -> dict[int, Any]:
    return {
        v: total
        for _, columns in store.read(loop, manifest)
        for v, total in zip(columns["id"].tolist(), columns["total"].tolist(), strict=True)
    }


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_what_has_changed_is_written(partitions: int, tmp_path: Path) -> None:
    url, rng = f"lmdb://{tmp_path}/state", random.Random(partitions)
    edges: Edges = {(k, (k + 1) % 12): 1.0 for k in range(12)}
    rows = [(a, b, x) for (a, b), x in edges.items()]
    engine = engine_in_process(Program(Weights), rows, partitions=partitions, store=url)
    kinds, iteration = set(), 0
    with open_store(url) as store:
        manifest = None
        for step in range(12):
            number = 3 if step < 6 else 1
            batch = random_rows(rng, edges, number, undirected=False)
            out = engine.execute(Command(Deltas.mixed(batch), budget=QUIET, write=True))
            kinds |= {(ref.kind, out.whole) for ref in out.segments}
            iteration = max(iteration + 1, out.iteration)
            for segment in out.unwritten:
                store.put(segment)
            manifest = store.commit(
                "main", iteration=iteration, segments=out.segments, parent=manifest,
                partitions=partitions,
            )  # fmt: skip
            assert written(store, "main") == weights(edges)
            if step == 6:
                fork, at = engine.fork(), manifest
        assert ("delta", False) in kinds
        assert ("base", True) in kinds
        again = engine.execute(Command(budget=QUIET, write=True))
        assert again.segments == []
        out = fork.execute(Command(Deltas.mixed([("+", 0, 1, 99.0)]), budget=QUIET, write=True))
        store.fork("main", "branch", at.iteration)
        for segment in out.unwritten:
            store.put(segment)
        store.commit(
            "branch", iteration=iteration, segments=out.segments, parent=store.version("branch")
        )
        assert written(store, "branch")[1] >= 99.0
        assert written(store, "main") == weights(edges)


def test_many_deltas_make_a_base(tmp_path: Path) -> None:
    edges = [(k, (k + 1) % 200) for k in range(200)]
    engine = engine_in_process(Program(Weights), edges, store=f"lmdb://{tmp_path}/state")
    kinds = []
    for k in range(MAX_DELTAS + 3):
        batch = Deltas.mixed([("~", k, k + 1, 5.0)])
        out = engine.execute(Command(batch, budget=QUIET, write=True))
        kinds += [ref.kind for ref in out.segments]
    assert kinds == ["base", *["delta"] * MAX_DELTAS, "base", "delta"]


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (2, 3), (7, 1)])
def test_a_checkpoint_holds_all_that_a_loop_has(before: int, after: int, tmp_path: Path) -> None:
    """Also what was no edge, and what was on its way; with any number of partitions."""
    url = f"lmdb://{tmp_path}/state"
    ring = [(k, (k + 1) % 5) for k in range(5)]
    common: Any = {"store": url, "undirected": False}
    engine = engine_in_process(Program(Steps), ring, partitions=before, **common)
    engine.execute(Command(budget=QUIET))
    engine.execute(Command(Deltas.mixed([("send", 0, "START", 9)]), budget=Budget(3)))
    segments = engine.checkpoint()
    with open_store(url) as store:
        found = [store.segment(ref) for ref in segments if not ref.group]
        ends = zip(
            *([x for c in found for x in c[n].tolist()] for n in ("source", "target")), strict=True
        )
    assert sorted(ends) == sorted(ring)
    assert {ref.kind for ref in segments} == {"topology"}
    nodes = [ref for ref in segments if ref.group == "nodes"]
    again = engine_in_process(Program(Steps), partitions=after, nodes=nodes, **common)
    assert state_of(again) == state_of(engine)
    assert mail_of(again) == mail_of(engine) != {}
    more = Command(Deltas.mixed([("send", 7, "START", 1), ("-", 0, 1)]), budget=QUIET)
    outs = [e.execute(more) for e in (engine, again)]
    assert state_of(again) == state_of(engine)
    for name in ("counts", "iteration", "num_vertices", "num_edges"):
        assert getattr(outs[0], name) == getattr(outs[1], name)


def test_a_checkpoint_of_strings(tmp_path: Path) -> None:
    common: Any = {"store": f"lmdb://{tmp_path}/state", "undirected": True}
    engine = engine_in_process(Program(Least), [("b", "a"), ("c", "d")], partitions=2, **common)
    engine.execute(Command(Deltas.mixed([("+", "zoë", "c")]), budget=QUIET))
    segments = {ref.group or str(ref.key.partition): ref for ref in engine.checkpoint()}
    with open_store(common["store"]) as store:
        stored = store.segment(segments["names"])
        assert bytes(stored["names.bytes"]).decode() == "abcdzoë"
        names = dict(zip(stored["codes"].tolist(), ["a", "b", "c", "d", "zoë"], strict=True))
        ends = [
            names[k]
            for p in "01"
            for pair in zip(
                *(store.segment(segments[p])[n] for n in ("source", "target")), strict=True
            )
            for k in pair
        ]
    assert sorted(zip(ends[::2], ends[1::2], strict=True)) == [("a", "b"), ("c", "d"), ("c", "zoë")]
