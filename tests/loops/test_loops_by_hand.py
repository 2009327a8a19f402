"""Main loops as they are used by hand: before the first query, versions, branches of one name."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from vertexsdk import Graph, InputError, MainLoop, StateInputError, run
from vertexsdk.algorithms import PageRank

EDGES = ([1, 2], [2, 3])


@pytest.fixture
def main(tmp_path: Path) -> MainLoop:
    url = f"lmdb://{tmp_path}/state"
    return MainLoop("wcc", Graph.from_arrays(*EDGES), backend=url)


def test_a_lookup_before_the_first_query(main: MainLoop) -> None:
    with main:
        main.ingest([("+", 3, 4)])
        row = main.lookup(4)[4]
        assert (row["component"], row["behind"], row["residual"]) == (1, 0, None)
        assert main.queries == 0
        main.ingest([("+", 4, 5)])
        assert main.lookup(4)[4]["behind"] == 1
        assert not main.lookup(5)


def test_read_and_diff_before_the_first_query(main: MainLoop) -> None:
    with (
        main,
        run("wcc", Graph.from_arrays([1], [2]), backend="memory://by-hand", loop="two") as two,
    ):
        assert main.diff(two).ids.tolist() == [3]
        with main.read() as result:
            assert result.to_dict() == {1: 1, 2: 1, 3: 1}


def test_a_lookup_in_a_graph_without_edges() -> None:
    with MainLoop("wcc", Graph.empty(), backend="memory://by-hand", loop="empty") as empty:
        assert empty.lookup(1) == {}
        empty.ingest([("+", 1, 2)])
        assert empty.lookup(2) == {}  # without a budget the state follows at the next query
        assert empty.progress()["behind"] == 1
        empty.query().close()
        assert empty.lookup(2)[2]["component"] == 1


def test_versions_are_listed(main: MainLoop) -> None:
    with main:
        main.query().close()
        main.ingest([("+", 3, 4), ("+", 4, 5)])
        main.query().close()
        main.ingest([("+", 5, 6)])
        rows = main.history()
        columns = ["changes", "behind", "exact", "queries", "vertices", "edges"]
        assert [[row[c] for c in columns] for row in rows.to_pylist()] == [
            [0, 0, False, 0, None, None],
            [0, 0, True, 1, 3, 2],
            [2, 2, False, 1, 3, 2],
            [2, 0, True, 2, 5, 4],
            [3, 1, False, 2, 5, 4],
        ]
        versions = rows["version"].to_pylist()
        assert versions == sorted(versions)
        assert versions[-1] == main.iteration
        created = [at.timestamp() for at in rows["created"].to_pylist()]
        assert created == sorted(created)
        assert abs(created[-1] - time.time()) < 60
        with main.fork(at=versions[1]) as branch, branch.result() as answer:
            assert len(answer) == 3


def test_how_long_the_state_is_behind(main: MainLoop) -> None:
    with main:
        main.query().close()
        assert main.progress()["behind_seconds"] == 0
        main.ingest([("+", 3, 4)])
        time.sleep(0.02)
        first = main.progress()["behind_seconds"]
        main.ingest([("+", 4, 5)])
        assert 0.02 <= first <= main.progress()["behind_seconds"]  # since the first of them
        main.query().close()
        assert main.progress()["behind_seconds"] == 0


def test_a_name_of_a_closed_branch_is_free(main: MainLoop) -> None:
    with main:
        for target in (7, 8):
            with main.fork("what if") as branch:
                branch.apply([("+", 1, target)])
                with branch.result() as answer:
                    assert list(answer) == [1, 2, 3, target]
        kept = main.fork("what if")
        with pytest.raises(StateInputError, match="'what if' is open: close"):
            main.fork("what if")
        kept.apply([("+", 1, 9)])
        kept.close()
    again = MainLoop.resume(None, "wcc", backend=main.backend)
    with again, again.fork("what if") as branch, branch.result() as answer:
        assert list(answer) == [1, 2, 3]


def test_names_of_other_loops_are_not_free(main: MainLoop) -> None:
    graph = Graph.from_arrays(*EDGES)
    with main, MainLoop(PageRank, graph, backend=main.backend, loop="ranks") as ranks:
        run("wcc", graph, backend=main.backend, loop="a run").close()
        main.query().close()
        with ranks.fork("theirs") as branch:
            branch.apply([("+", 1, 9)])
        main._history.store.fork("wcc", "pointer")  # as by `vertexsdk state fork`
        for name in ("wcc", "ranks", "a run", "theirs", "pointer"):
            with pytest.raises(StateInputError, match="already"):
                main.fork(name)
        with pytest.raises(StateInputError, match="'wcc-1' is the name of an answer"):
            main.fork("wcc-1")
    with MainLoop.resume(None, PageRank, backend=main.backend, loop="theirs") as resumed:
        resumed.ingest([("+", 1, 10)])  # from here on it is a main loop
    ranks = MainLoop.resume(None, PageRank, backend=main.backend, loop="ranks")
    with ranks, pytest.raises(StateInputError, match="already"):
        ranks.fork("theirs")


def test_a_merge_iterates_to_the_end(main: MainLoop) -> None:
    with main:
        branch = main.fork()
        branch.apply([("+", 3, 4)])
        branch.merge()
        branch.merge()  # it is merged already, which is no mistake
        assert branch.merged
        assert main.lookup(4)[4]["behind"] == 0
        running = main.fork().start()
        running.merge()
        assert running.merged
        late = main.fork()
        late.apply([("+", 4, 5)])
        main.ingest([("-", 1, 2)])
        with pytest.raises(InputError, match="1 changes came to loop 'wcc' since"):
            late.merge()
        assert late.progress()["state"] == "waiting"  # refused before it iterates
        for one in (branch, running, late):
            one.close()


def test_what_loops_and_results_are_called(main: MainLoop) -> None:
    with main:
        assert repr(main).startswith("MainLoop wcc(program: wcc, state: idle, version: 0, ")
        with main.fork("b") as branch:
            assert repr(branch).startswith("BranchLoop b(of: wcc, state: waiting, exact: no, ")
            assert repr(main.diff(main)) == "ResultDiff(field: component, differ: 0)"
        with main.query() as answer:
            assert "vertices: 3, fields: component" in repr(answer)
        assert repr(answer).endswith("closed: yes)")
    assert "state: closed" in repr(main)


def test_plots() -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    graph = Graph.from_arrays(["$x$", "$x$", "b"], ["b", "c", "c"])
    with run("degree", graph, backend="memory://by-hand", loop="plots") as result:
        ax = result.plot(bins=4)
        heights = [bar.get_height() for bar in ax.patches]
        assert heights == result.histogram(bins=4)["count"].to_pylist()
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("degree", "vertices")
        assert result.plot(top=2, ax=ax) is ax
        mine = plt.figure().subplots()
        result.plot(top=2, ax=mine)
        labels = [label.get_text() for label in mine.get_yticklabels()]
        assert r"\$x\$" in labels  # no formula
        labels = [label.replace("\\", "") for label in labels]
        widths = [bar.get_width() for bar in mine.patches]
        assert dict(zip(labels, widths, strict=True)) == result.top(2)
        with pytest.raises(InputError, match="no field 'x'"):
            result.plot("x")
    plt.close("all")
