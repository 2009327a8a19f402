"""Nothing takes the place of a main loop whose changes the store has acknowledged, unasked."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from vertexsdk import Graph, InputError, MainLoop, StateInputError, read, run
from vertexsdk.cli import main as command

_stores = count()


@pytest.fixture
def url() -> str:
    return f"memory://names-{next(_stores)}"


def graph() -> Graph:
    return Graph.from_arrays([1, 2], [2, 3])


def ingested(url: str, loop: str | None = None, changes: int = 2) -> None:
    """Leave a main loop in the store that has acknowledged changes."""
    with MainLoop("wcc", graph(), backend=url, loop=loop) as main:
        main.ingest([("+", 3, 4 + k) for k in range(changes)])


def answer(url: str, loop: str, **options: Any) -> dict[Any, Any]:
    with closing(read(url, loop, **options)) as result:
        return result.to_dict()


STARTS: dict[str, Callable[[str], object]] = {
    "run": lambda url: run("wcc", graph(), backend=url, loop="wcc"),
    "resumed run": lambda url: run("wcc", graph(), backend=url, loop="wcc", resume=True),
    "main loop": lambda url: MainLoop("wcc", graph(), backend=url),
}


@pytest.mark.parametrize("start", STARTS)
def test_what_would_replace_acknowledged_changes_is_refused(url: str, start: str) -> None:
    ingested(url)
    with pytest.raises(InputError) as refused:
        STARTS[start](url)
    assert re.fullmatch(
        rf"loop 'wcc' in {url}\S* has 2 acknowledged changes: go on with MainLoop\.resume"
        r"\(\.\.\.\), give another loop=, or drop them with replace=True",
        str(refused.value),
    )
    with MainLoop.resume(None, "wcc", backend=url) as main:
        assert main.changes == 2


def test_a_run_is_refused_before_it_loads_or_claims_anything(url: str) -> None:
    never = Graph.from_arrays([1], [2])
    never.materialise = None  # type: ignore[method-assign, assignment]
    with MainLoop("wcc", graph(), backend=url) as main:
        main.ingest([("+", 3, 4)])
        with pytest.raises(InputError, match="has 1 acknowledged change: "):
            run("wcc", never, backend=url, loop="wcc")
        main.ingest([("+", 4, 5)])  # it has not been taken over


def test_changes_that_come_while_a_run_loads_are_not_lost(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Graph.materialise

    def slowly(self: Graph, layout: Any) -> Any:
        monkeypatch.undo()
        ingested(url)
        return load(self, layout)

    monkeypatch.setattr(Graph, "materialise", slowly)
    with pytest.raises(InputError, match="has 2 acknowledged changes"):
        run("wcc", graph(), backend=url, loop="wcc")
    assert len(answer_of_resumed(url)) == 5


def answer_of_resumed(url: str) -> dict[Any, Any]:
    with MainLoop.resume(None, "wcc", backend=url) as main, main.query() as result:
        return result.to_dict()


def test_replace_drops_the_main_loop_and_says_so(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    ingested(url)
    run("wcc", graph(), backend=url, loop="wcc", replace=True).close()
    assert "replaces the main loop of this name and its 2 acknowledged changes" in caplog.text
    assert answer(url, "wcc") == {1: 1, 2: 1, 3: 1}
    with pytest.raises(InputError, match="is not a main loop"):
        MainLoop.resume(None, "wcc", backend=url)


def test_runs_and_main_loops_of_a_program_have_names_of_their_own(url: str) -> None:
    with run("wcc", graph(), backend=url) as result:
        assert result.loop == "wcc-run"
    assert answer(url, "wcc") == {1: 1, 2: 1, 3: 1}  # the only one of the program
    ingested(url)
    assert len(answer_of_resumed(url)) == 5
    run("wcc", Graph.from_arrays([7], [8]), backend=url).close()  # as often as wanted
    assert answer(url, "wcc-run") == {7: 7, 8: 7}
    assert len(answer(url, "wcc")) == 5
    assert len(answer_of_resumed(url)) == 5
    with pytest.raises(StateInputError, match=r"no loop 'bfs' in .*: it has 'wcc', 'wcc-1'"):
        read(url, "bfs")


def test_an_answer_does_not_delete_a_main_loop_of_its_name(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    ingested(url, "wcc-1")
    with MainLoop("wcc", graph(), backend=url) as main:
        with pytest.raises(InputError, match=r"loop 'wcc-1' in .* has 2 acknowledged changes"):
            main.query(persist=True)
        assert main.query(persist=True).loop == "wcc-2"
    with MainLoop.resume(None, "wcc", backend=url, loop="wcc-1") as other:
        assert other.changes == 2


@pytest.fixture
def edges(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VERTEXSDK_BACKEND", url)
    Path("e.txt").write_text("1 2\n2 3\n")
    Path("c.txt").write_text("+ 3 4\n+ 3 5\n")
    return ["wcc", "--edges", "e.txt", "--engine", "local"]


@pytest.mark.parametrize("store", ["memory", "lmdb"])
def test_the_command_line_refuses_with_its_own_words(
    edges: list[str], url: str, store: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if store == "lmdb":  # looked at before Spark starts
        url = f"lmdb://{Path.cwd()}/state"
        monkeypatch.setenv("VERTEXSDK_BACKEND", url)
    stream = ["stream", *edges, "--changes", "c.txt"]
    assert command(stream) == 0
    for again in (stream, ["run", *edges, "--loop", "wcc"]):
        capsys.readouterr()
        assert command(again) == 2
        assert re.fullmatch(
            rf"vertexsdk: loop 'wcc' in {url}\S* has 2 acknowledged "
            "changes: go on with `vertexsdk stream --resume`, give another --loop, or drop them "
            "with --replace\n",
            capsys.readouterr().err,
        )
    assert command(["run", *edges]) == 0  # has a name of its own
    assert "wcc-run" in capsys.readouterr().err
    assert command(["query", "wcc", "--vertex", "5"]) == 0
    assert command([*stream, "--resume"]) == 0
    assert "0 changes: " in capsys.readouterr().err
    assert command([*stream, "--resume", "--replace"]) == 2
    assert "leave out one of the two" in capsys.readouterr().err
    assert command([*stream, "--replace"]) == 0
    said = capsys.readouterr().err
    assert re.search("wcc: dropped 2 changes of an earlier stream in the store\n2 changes: ", said)
    assert command(["run", *edges, "--loop", "wcc", "--replace"]) == 0
    assert command([*stream, "--resume"]) == 2
    assert "open one with `vertexsdk stream` without --resume" in capsys.readouterr().err
