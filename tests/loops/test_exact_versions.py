"""Exact answers for earlier versions of a loop, computed by who asks; forks that can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk import Graph, InputError, MainLoop, Sum, Vertex, algorithms, read, run, state
from vertexsdk.cli import main as command
from vertexsdk.state import open_store

MINE = """\
from vertexsdk import Min, Vertex, VertexId, inf, param, state


class Mine(Vertex):
    origin: VertexId = param()
    far: float = state(inf)
    messages = Min(float)

    def gather(self, iteration, source, delta):
        self.far = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.far + target.value)
"""
PROGRAMS: list[Any] = ["wcc", "degree", "pagerank", "mine.py:Mine"]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    monkeypatch.setenv("VERTEXSDK_BACKEND", f"lmdb://{tmp_path}/store")
    return f"lmdb://{tmp_path}/store"


def opened(program: str, convert: type, partitions: int, url: str, **options: Any) -> MainLoop:
    ends = [[convert(x) for x in end] for end in ([1, 2, 3], [2, 3, 1])]
    graph = Graph.from_arrays(*ends, [1.0, 2.0, 4.0], partitions=partitions)
    params = {"origin": convert(1)} if program.endswith("Mine") else {}
    return MainLoop(program, graph, params=params, backend=url, loop="loop", **options)


def heads(url: str) -> list[str]:
    with open_store(url) as store:
        return [name for name in store.loops() if not name.startswith("loop-")]


@pytest.mark.sample(3)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("convert", [int, str])
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("compiled", [True, False])
def test_every_version_has_an_exact_answer(
    program: str, convert: type, partitions: int, compiled: bool, url: str
) -> None:
    rng = np.random.default_rng(seed())
    with opened(program, convert, partitions, url, compiled=compiled) as main:
        for k in range(4):
            ends = [[convert(x) for x in row] for row in rng.integers(1, 7, (3, 2)).tolist()]
            main.ingest([(str(rng.choice(["+", "+", "-"])), *row) for row in ends])
            if k == 2:
                main.query().close()
        versions = main.history().column("version").to_pylist()
        wanted = {}
        for version in versions:
            with main.at(version) as answer:
                wanted[version] = answer.to_dict()
        with read(url, "loop", versions[1], exact=True, program=program) as answer:
            assert answer.to_dict() == pytest.approx(wanted[versions[1]])  # beside the open loop
        main.ingest([("+", convert(1), convert(9))])
    for version in versions:
        with read(url, "loop", version, exact=True, program=program) as answer:
            assert answer.to_dict() == pytest.approx(wanted[version])
            assert answer.staleness().endswith("exact")
    assert heads(url) == ["loop"]
    with MainLoop.resume(None, program, backend=url, loop="loop") as main:
        assert convert(9) in main.query().to_dict()  # it was not disturbed


def test_a_window_s_version_has_an_exact_answer(url: str) -> None:
    with MainLoop("wcc", Graph.empty(str), backend=url, loop="loop").window(3) as main:
        for k in range(6):
            main.ingest([("+", f"v{k}", f"v{k + 1}")], time=k)
        version = main.history().column("version").to_pylist()[4]
        wanted = main.at(version).to_dict()
    with read(url, "loop", version, exact=True) as answer:
        assert answer.to_dict() == wanted


@pytest.mark.parametrize("convert", [int, str])
def test_the_command_line(url: str, convert: type, capsys: pytest.CaptureFixture[str]) -> None:
    with opened("mine.py:Mine", convert, 2, url) as main:
        main.ingest([("+", convert(3), convert(4), 8.0)])
        version = main.iteration
        main.ingest([("-", convert(1), convert(2))])
    query = ["query", "loop", "--at", str(version), "--exact", "--json"]
    assert command(query) == 2
    said = capsys.readouterr().err
    assert "loop 'loop' is of program mine, which is not a built-in one: give --program" in said
    assert command([*query, "--program", "mine.py:Mine"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["vertex"]: row["far"] for row in rows} == {
        convert(1): 0.0, convert(2): 1.0, convert(3): 3.0, convert(4): 11.0,
    }  # fmt: skip
    assert command(["query", "loop", "--program", "mine.py:Mine"]) == 2
    assert "--program is for --exact --at I" in capsys.readouterr().err
    assert command(["query", "loop", "--at", str(version)]) == 2
    assert f"have one computed: --exact, --at {version}" in capsys.readouterr().err


@pytest.mark.parametrize("convert", [int, str])
@pytest.mark.parametrize("program", ["wcc", "mine.py:Mine"])
def test_a_fork_can_be_queried(
    url: str, program: str, convert: type, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(program, convert, 2, url) as main:
        main.ingest([("+", convert(3), convert(4))])
        version = main.iteration
        wanted = main.at(version).to_dict()
        main.ingest([("-", convert(1), convert(2))])
        main.query(persist=True).close()
    fork = ["state", "fork", "loop", "other", "--at", str(version), "--json"]
    own = [] if program == "wcc" else ["--program", program]
    if own:
        assert command(fork) == 2
        assert "not a built-in one: give --program" in capsys.readouterr().err
        assert heads(url) == ["loop"]
    assert command([*fork, *own]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] > version
    assert command(["query", "other", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["vertex"]: [*row.values()][1] for row in rows} == wanted
    assert heads(url) == ["loop", "other"]
    assert command(["state", "fork", "loop", "newest"]) == 0  # has an answer: a pointer
    assert "computed" not in capsys.readouterr().out
    assert command(["query", "newest"]) == 0
    with MainLoop.resume(None, program, backend=url, loop="other") as main:
        main.ingest([("+", convert(4), convert(9))])
        assert {*main.query().to_dict()} == {convert(x) for x in (1, 2, 3, 4, 9)}


class PageRank(Vertex):
    """A user's class of the name of a built-in one, which is not taken for that."""

    rank: float = state(0.0)
    messages = Sum(float)
    max_iterations = 1

    def gather(self, iteration, source, delta):
        self.rank = delta.value

    def scatter(self, iteration):
        self.emitAll(1.0)


def test_classes_with_the_name_of_a_built_in_program(url: str) -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 1])
    for cls, own in ((PageRank, PageRank), (algorithms.ConnectedComponents, None)):
        with MainLoop(cls, graph, backend=url, compiled=False) as main:
            version, wanted = main.iteration, main.query().to_dict()
        if own is not None:
            with pytest.raises(InputError, match="of program pagerank, which is not a built-in"):
                read(url, main.loop, version, exact=True)
        with read(url, main.loop, version, exact=True, program=own) as answer:
            assert answer.to_dict() == wanted


def test_what_has_no_graph_is_refused(url: str) -> None:
    run("wcc", Graph.from_arrays([1], [2]), backend=url).close()
    with pytest.raises(InputError, match="'wcc-run' is not a main loop"):
        read(url, "wcc-run", 2, exact=True)
    assert command(["state", "fork", "wcc-run", "other"]) == 0
    with read(url, "other") as answer:
        assert answer.to_dict() == {1: 1, 2: 1}
    assert heads(url) == ["other", "wcc-run"]
