"""What was acknowledged is in the store, once: repeats, failures, checkpoints, resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from vertexsdk import Graph, InputError, MainLoop, Min, RunError, Vertex, inf, run, state
from vertexsdk.algorithms import (
    ConnectedComponents,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    StronglyConnectedComponents,
)
from vertexsdk.engine.commands import QUIET, Budget, Command
from vertexsdk.errors import LostError
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Delta
from vertexsdk.state import FencedError, FullError, StateError, Store, open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"lmdb://{tmp_path}/state"


def components(main: MainLoop) -> dict[Any, Any]:
    return main.query().to_dict()


def kinds(url: str, loop: str) -> list[str]:
    with open_store(url) as store:
        head = store.head(loop)
        assert head is not None
        refs = store.segments(head)
        return sorted(f"{r.kind}/{r.group}" if r.group else r.kind for r in refs)


def test_a_batch_that_comes_again(spark: SparkSession, url: str) -> None:
    graph = Graph.from_arrays([1], [2], spark=spark)
    none = {"added": 0, "removed": 0, "changed": 0, "unchanged": 0, "absent": 0}
    with MainLoop(ConnectedComponents, graph, backend=url, loop="w") as main:
        frame = spark.createDataFrame([("+", 2, 3)], "kind string, source long, target long")
        assert main.ingest(frame, source="a", offset=5)["added"] == 1
        assert main.ingest([("-", 2, 3)], source="a", offset=5) == {**none, "repeated": 1}
        assert main.ingest([("-", 2, 3), ("-", 1, 2)], source="a", offset=4)["repeated"] == 2
        assert main.ingest([("+", 3, 4)], source="b", offset="x.txt")["added"] == 1
        assert main.ingest([("-", 3, 4)], source="b", offset="x.txt") == {**none, "repeated": 1}
        assert main.ingest([], source="a", offset=6, bad=2) == none
        assert main.ingest([("+", 4, 5)], source="a", offset=6)["repeated"] == 1
        assert main.offsets == {"a": 6, "b": "x.txt"}
        assert components(main) == dict.fromkeys([1, 2, 3, 4], 1)
        assert (main.changes, main._history.ledger.repeated, main._history.ledger.bad) == (
            2,
            5,
            2,
        )


def test_resumed_as_it_was(spark: SparkSession, url: str) -> None:
    """String ids, a vertex file, both directions, two partitions; then another process."""
    graph = Graph.from_arrays(
        ["m", "n"], ["n", "o"], spark=spark, vertices=["alone"], undirected=True, partitions=2
    )
    options: Any = {"backend": url, "loop": "w", "compiled": False}
    main = MainLoop(ConnectedComponents, graph, **options)
    main.ingest([("+", "a", "o"), ("-", "n", "m"), ("+", "x", "y")])
    main.query()
    main.ingest([("+", "y", "z"), ("~", "a", "o", 3)])
    wanted = {"alone": "alone", "a": "a", "n": "a", "o": "a"}
    again = MainLoop.resume(spark, ConnectedComponents, **options)
    assert again.lookup(["a"])["a"]["behind"] == 2
    assert again.counts == {"added": 3, "removed": 1, "changed": 0, "unchanged": 1, "absent": 0}
    assert components(again) == {**wanted, "x": "x", "y": "x", "z": "x"}
    with pytest.raises(FencedError, match="another driver took over loop 'w'"):
        main.ingest([("+", "q", "r")])
    with pytest.raises(FencedError):
        main.query()
    main.close()
    again._history.take_snapshot()
    assert "changes/tail" not in kinds(url, "w")
    again.ingest([("-", "x", "y"), ("-", "z", "y"), ("-", "n", "o"), ("-", "a", "o")])
    again._history.take_snapshot()  # of a graph without edges
    again.close()
    with MainLoop.resume(spark, ConnectedComponents, **options) as last:
        assert components(last) == {"alone": "alone"}
        last.ingest([("+", "alone", "b")])
        assert components(last) == dict.fromkeys(["alone", "b"], "alone")


def test_the_log_is_short(url: str) -> None:
    graph = Graph.from_arrays([1], [2])
    options: Any = {"backend": url, "loop": "w", "snapshot_every": 150}
    options["snapshots"] = "synchronous"
    with MainLoop(ConnectedComponents, graph, **options) as main:
        for k in range(100):
            main.ingest([("+", 2, k), ("-", 2, k), ("+", 2, k)][: 1 + k % 3], source="s", offset=k)
            if k == 70:
                assert kinds(url, "w") == ["changes", *["changes/tail"] * 7, "topology"]
        assert kinds(url, "w") == [*["changes/tail"] * 25, "topology"]
        with open_store(url) as store:
            assert len(store.versions("w")) <= 64 + 64
            assert store.verify() == []
        edges = main._history.engine.execute(Command()).num_edges
    with MainLoop.resume(None, ConnectedComponents, **options) as main:
        assert main.offsets == {"s": 99}
        assert main._history.engine.execute(Command()).num_edges == edges == 68


def test_an_answer_is_the_newest_until_changes_come(url: str) -> None:
    options: Any = {"backend": url, "loop": "w"}
    main = MainLoop(ConnectedComponents, Graph.from_arrays([1], [2]), **options)
    main.ingest([("+", 2, 3)], source="s", offset=0)
    main.query(persist=True).close()
    main.ingest([], source="s", offset=1)  # lines without changes
    with MainLoop.resume(None, ConnectedComponents, **options) as again:
        assert again.offsets == {"s": 1}
        answer = again.answered()
        assert answer is not None
        assert answer.loop == "w-1"
        assert answer.to_dict() == {1: 1, 2: 1, 3: 1}
        answer.close()
        assert again.queries == 1
        again.ingest([("+", 3, 4)])
        assert again.answered() is None


@pytest.mark.parametrize("step", ["put_segment", "commit", "after"])
def test_what_cannot_be_stored_never_happened(
    step: str, spark: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph.from_arrays([1], [2], spark=spark)
    with MainLoop(ConnectedComponents, graph, backend=url, loop="w") as main:
        main.ingest([("+", 2, 3)], source="s", offset=0)
        real: Any = Store._publish

        def fails(self: Store, *args: Any, **given: Any) -> Any:
            if step == "after":
                real(self, *args, **given)
            raise FullError("no room")

        monkeypatch.setattr(Store, "_publish" if step == "after" else step, fails)
        with pytest.raises(FullError):
            main.ingest([("-", 1, 2)], source="s", offset=1)
        monkeypatch.undo()
        again = main.ingest([("-", 1, 2)], source="s", offset=1)
        assert again == (
            {"added": 0, "removed": 0, "changed": 0, "unchanged": 0, "absent": 0, "repeated": 1}
            if step == "after"
            else {"added": 0, "removed": 1, "changed": 0, "unchanged": 0, "absent": 0}
        )
        assert components(main) == {2: 2, 3: 2}
        assert main.changes == 2


def test_an_approximation_follows(spark: SparkSession, url: str) -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 1], spark=spark)
    with MainLoop(PageRank, graph, backend=url, loop="r", budget=Budget(iterations=3)) as main:
        main.ingest([("+", 1, 3)])
        first = main.lookup([1])[1]
        assert first["behind"] == 0
        assert first["residual"] > 1e-3
        assert main.read().statistics["exact"] is False
        main.ingest([("+", 5, 1)])
        assert main.query().statistics["start"] == "warm"
        assert main.lookup([1])[1]["residual"] < 1e-9
    graph = Graph.from_arrays([1, 2], [2, 3], spark=spark, partitions=2)
    with MainLoop(
        StronglyConnectedComponents, graph, backend=url, loop="s", budget=QUIET, history=False
    ) as components:
        components.ingest([("+", 3, 4)])
        assert "history=False" in str(components.from_init)
        assert components.lookup([4])[4]["behind"] == 0  # the first lookup computes the state
        assert components.queries == 0
    with MainLoop(LabelPropagation, graph, backend=url, loop="l", budget=Budget(1)) as labels:
        labels.ingest([("+", 3, 4)])
        assert labels.from_init is None
        assert labels.lookup([4])[4]["behind"] == 0
        labels.ingest([("+", 4, 5)])
        assert labels.query().statistics["start"] == "warm"


def test_who_cannot_resume(spark: SparkSession, url: str) -> None:
    def refused(program: Any, said: str, **options: Any) -> None:
        with pytest.raises(InputError, match=said) as found:
            MainLoop.resume(spark, program, backend=url, **options)
        assert "\n" not in str(found.value)

    with pytest.raises(StateError):
        MainLoop.resume(spark, ConnectedComponents, backend=url)  # there is no store
    graph = Graph.from_arrays([1], [2], [1.0], spark=spark)
    run(ConnectedComponents, graph, backend=url, loop="plain")
    params = {"origin": 1}
    MainLoop(ShortestPaths, graph, params=params, backend=url, loop="paths").close()
    refused(ShortestPaths, "there is no loop 'shortestpaths'")
    refused(
        ConnectedComponents, "'plain' is not a main loop: it was written by a run", loop="plain"
    )
    refused(ConnectedComponents, "belongs to program shortestpaths, not to", loop="paths")
    refused(ShortestPaths, "opened with origin=1, not 2", loop="paths", params={"origin": 2})
    MainLoop.resume(spark, ShortestPaths, backend=url, loop="paths", params=params).close()


class Near(Vertex):
    """The least id behind a vertex."""

    least: int = state(0)
    messages = Min(int)

    def init(self) -> None:
        self.least = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.least = min(self.id, delta.value)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.least)


class Nearer(Near):
    least: float = state(inf)  # type: ignore[assignment]
    seen: int = state(0)
    messages = Min(float)


def test_fields_that_changed(spark: SparkSession, url: str) -> None:
    graph = Graph.from_arrays([1, 2], [2, 3], spark=spark, partitions=2)
    with MainLoop(Program(Near, name="near"), graph, backend=url, compiled=False) as main:
        main.query()
        main.ingest([("+", 0, 1)])
    new = Program(Nearer, name="near")
    with pytest.raises(StateError, match=r"seen was added; least was int, is float; give migrate="):
        MainLoop.resume(spark, new, backend=url)
    with pytest.raises(InputError, match="returned no column 'seen'"):
        MainLoop.resume(spark, new, backend=url, migrate=lambda old: {"least": old["least"]})
    again = MainLoop.resume(
        spark, new, backend=url, compiled=False,
        migrate=lambda old: {"least": old["least"] + 0.5, "seen": old["id"]},
    )  # fmt: skip
    with again as main:
        assert main.lookup([3]) == {
            3: {"least": 1.5, "seen": 3, "version": main.iteration, "behind": 1, "residual": None}
        }
        assert main.query().lookup([3])[3]["least"] == 0.0
    MainLoop.resume(spark, new, backend=url).close()


def test_a_lost_engine_is_made_again(
    spark: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph.from_arrays([1], [2], spark=spark, partitions=2)
    with MainLoop(ConnectedComponents, graph, backend=url, loop="w") as main:
        main.ingest([("+", 2, 3)])
        first = main._history.engine
        monkeypatch.setattr(first, "_version", 99)  # as if another process had the partitions
        assert main.ingest([("+", 3, 5)])["added"] == 1
        assert main._history.engine is not first
        assert components(main) == dict.fromkeys([1, 2, 3, 5], 1)

        def lost(*_: Any) -> None:
            raise LostError("an executor was lost, again and again")

        monkeypatch.setattr(type(first), "execute", lost)
        with pytest.raises(RunError, match="again and again"):
            main.ingest([("-", 3, 5)])
        monkeypatch.undo()
        assert main.ingest([("-", 3, 5)])["removed"] == 1
        assert components(main) == dict.fromkeys([1, 2, 3], 1)
