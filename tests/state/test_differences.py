"""The differences of versions that hold the same vertices otherwise: by other codes, elsewhere."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np
import pytest

from tests.state.test_state_cli import state
from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop, run
from vertexsdk.state import open_store
from vertexsdk.state.sql_view import segment_layers, segment_parts

URL = "memory://differences"


def answer(loop: str, edges: list[tuple[Any, Any]], partitions: int = 1) -> dict[Any, Any]:
    """The components of a graph, which stay in the store as loop `loop`."""
    graph = Graph.from_arrays(*zip(*edges, strict=True), partitions=partitions)
    options: Any = {"backend": URL, "loop": loop, "compiled": False, "progress": False}
    with contextlib.closing(run("wcc", graph, **options)) as result:
        return result.to_dict()


def test_names_are_compared_not_their_codes(capsys: pytest.CaptureFixture[str]) -> None:
    answer("older", [("a", "b"), ("b", "c")])
    answer("newer", [("b", "c"), ("c", "d")])
    _, said = state(capsys, "diff", "older", "newer", "--backend", URL)
    assert said.splitlines() == [
        "added: 1 (d)", "removed: 1 (a)", "changed: 2 (b, c)", "  in component: 2"
    ]  # fmt: skip
    _, found = state(capsys, "diff", "older", "newer", "--backend", URL, "--json")
    assert (found["added"], found["removed"], found["changed"]) == (["d"], ["a"], ["b", "c"])


def test_random_differences() -> None:
    """Of graphs of integers and of names, with other numbers of partitions."""
    chance = random.Random(seed())
    for number in range(4):
        sides, strings = [], chance.random() < 0.7
        for side in ("older", "newer"):
            numbers = [(chance.randrange(9), chance.randrange(9)) for _ in range(6)]
            edges = [(f"n{a * 7919 % 1009}", f"n{b * 7919 % 1009}") for a, b in numbers]
            given: list[Any] = edges if strings else numbers
            sides.append(answer(f"{side}-{number}", given, chance.choice([1, 2, 7])))
        old, new = sides
        with open_store(URL) as store:
            found = store.diff((f"older-{number}", None), (f"newer-{number}", None))
        both = sorted(old.keys() & new.keys())
        assert found.added.tolist() == sorted(new.keys() - old.keys())
        assert found.removed.tolist() == sorted(old.keys() - new.keys())
        assert found.changed.tolist() == [v for v in both if old[v] != new[v]]
        assert found.fields.get("component", 0) == len(found.changed)


def test_versions_of_a_loop_whose_names_got_other_codes() -> None:
    graph = Graph.from_arrays(["b", "c"], ["c", "d"])
    options: Any = {"backend": URL, "loop": "main", "compiled": False}
    main = MainLoop("wcc", graph, **options)
    main.query().close()
    before = main.iteration
    main.ingest([("+", "a", "z")])
    main.close()
    with MainLoop.resume(None, "wcc", partitions=2, **options) as main:
        main.query(persist=True).close()
        after = main.iteration
    with open_store(URL) as store:
        found = store.diff(("main", before), ("main", after))
    assert (found.added.tolist(), found.removed.size, found.changed.size) == (["a", "z"], 0, 0)


def test_rows_for_sql_have_names_where_fields_are_vertices() -> None:
    wanted = answer("rows", [("c", "b"), ("x", "y")], 2)
    with open_store(URL) as store:
        manifest = store.version("rows")
        parts = list(segment_parts(store, manifest, segment_layers(store, manifest)))
    rows = [
        pair for part in parts for pair in zip(part["name"], part["component"], strict=True)
    ]  # fmt: skip
    assert dict(rows) == wanted
    assert all(part["component"].dtype == np.dtype(object) for part in parts)
