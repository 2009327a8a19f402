"""Arrays of forks: what either side changes, the other does not see."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from tests.support.live import LiveInProcess
from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop, Vertex
from vertexsdk.algorithms import (
    BreadthFirstSearch,
    ConnectedComponents,
    Degree,
    PageRank,
    ShortestPaths,
)
from vertexsdk.engine import arena as arena_module
from vertexsdk.engine.adjacency import RowPool
from vertexsdk.engine.arena import Arena, written_pages
from vertexsdk.program.program import Program


@pytest.mark.parametrize("pagemap", [True, False])
def test_forks_do_as_copies_of_lists(monkeypatch: pytest.MonkeyPatch, pagemap: bool) -> None:
    rng = random.Random(seed())
    if not pagemap:
        monkeypatch.setattr(arena_module, "written_pages", lambda array: None)
    for _ in range(60):
        arena, model = Arena(), {"x": list(range(10)), "y": [0] * 5000}
        for name, values in model.items():
            arena.put(name, np.array(values))
        arenas: list[tuple[Arena, dict[str, list[int]]]] = [(arena, model)]
        for _ in range(50):
            change(rng, arenas)
            for arena, model in arenas:
                assert {name: arena[name].tolist() for name in model} == model


def change(rng: random.Random, arenas: list[tuple[Arena, dict[str, list[int]]]]) -> None:
    """Do one thing to one of the arenas, and to its model."""
    arena, model = rng.choice(arenas)
    name, value = rng.choice("xy"), rng.randrange(1000)
    values, length = model[name], rng.randrange(8000)
    what = rng.choice(["write", "write", "resize", "put", "replace", "fork", "drop"])
    if what == "write" and values:
        places = [rng.randrange(len(values)) for _ in range(rng.randint(1, 20))]
        arena[name][places] = value
        for k in places:
            values[k] = value
    elif what == "resize":
        arena.resize(name, length)[len(values) :] = value
        model[name] = [*values[:length], *[value] * (length - len(values))]
    elif what == "put":
        arena.put(name, np.full(length, value))
        model[name] = [value] * length
    elif what == "replace":
        arena.replace(name, length)
        model[name] = [0] * length
    elif what == "fork" and len(arenas) < 5:
        arenas.append((arena.fork(), {n: list(v) for n, v in model.items()}))
    elif what == "drop" and len(arenas) > 1:
        arenas.pop(rng.randrange(len(arenas)))


def private(*arenas: Arena) -> int:
    """How many pages of private memory the arrays have."""
    columns: list[Any] = [c for arena in arenas for c in arena._columns.values()]
    pages = [written_pages(column.array) for column in columns]
    assert all(p is not None for p in pages)
    return sum(len(p) for p in pages if p is not None)


def test_a_fork_costs_the_pages_that_change() -> None:
    arena = Arena()
    arena.put("x", np.arange(1 << 20))
    fork = arena.fork()
    assert private(arena, fork) == 0
    arena["x"][[5, 1 << 19]] = 7
    fork["x"][9] = 3
    assert (private(arena), private(fork)) == (2, 1)
    memory = arena._columns["x"].memory
    del fork
    again = arena.fork()  # nobody else has the memory: the two pages go back to it
    assert arena._columns["x"].memory is memory
    assert private(arena, again) == 0
    assert again["x"][[5, 6, 9, 1 << 19]].tolist() == [7, 6, 9, 7]


@pytest.mark.full
def test_arrays_have_the_descriptors_that_they_need() -> None:
    script = """
import resource
import numpy as np
from vertexsdk.engine.arena import Arena

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, min(hard, 400)))
arenas = []
try:
    while True:
        arenas.append(Arena())
        arenas[-1].put("x", np.arange(3))
except Exception as error:
    print(len(arenas) > 64, type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240
    )
    assert done.stdout.startswith("True RunError this process has 400 open files, which is its")


def test_branches_of_branches_and_what_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowPool, "wasteful", lambda self, entries: True)
    edges = [(0, 1), (1, 2), (2, 3)]
    live = LiveInProcess(Program(BreadthFirstSearch), edges, [0], params={"origin": 0})
    live.answer()
    fork = live.fork()
    deeper = fork.fork()
    for k in range(20):
        live.take([("+" if k % 2 else "-", 1, 2)])
        deeper.take([("+" if k % 2 else "-", 2, 3)])
    late = live.fork()
    live.take([("-", 0, 1)])
    late.take([("+", 3, 4)])
    assert fork.answer()[3] == {"depth": 3}
    assert deeper.answer()[3] == {"depth": 3}
    assert late.answer()[4] == {"depth": 4}
    live.job(adopt=late.key)
    live.take([("+", 4, 5)])
    assert live.answer()[5] == {"depth": 5}
    assert fork.answer()[3] == {"depth": 3}
    for one in (fork, deeper, live):
        one.close()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("program", [ShortestPaths, ConnectedComponents, PageRank, Degree])
@pytest.mark.sample(1)
def test_memory_is_freed_with_its_loop(
    program: type[Vertex], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only by the collection of cycles: a fork that has ended has pages copied otherwise."""
    alive: weakref.WeakSet[Arena] = weakref.WeakSet()
    init = Arena.__init__

    def noted(self: Arena) -> None:
        init(self)
        alive.add(self)

    graph = Graph.from_arrays([0, 1], [1, 2], [1.0, 2.0], partitions=2)
    params = {"origin": 0} if program is ShortestPaths else {}
    options: dict[str, Any] = {"params": params, "compiled": compiled}
    with MainLoop(program, graph, backend="memory://first", **options) as main:
        main.query().close()  # to compile leaves cycles behind
    monkeypatch.setattr(Arena, "__init__", noted)
    gc.collect()
    gc.disable()
    try:
        graph = Graph.from_arrays([0, 1], [1, 2], [1.0, 2.0], partitions=2)
        with MainLoop(program, graph, backend="memory://freed", replace=True, **options) as main:
            for k in range(3):
                main.ingest([("+", 3, 4 + k)])
                main.query().close()
                with main.fork() as branch:
                    branch.apply([("+", 1, 9)])
                    branch.result().close()
                del branch
            assert len(alive) == 2
        assert len(alive) == 0
        forgotten = MainLoop(program, graph, backend="memory://forgotten", **options)
        forgotten.query(persist=True).close()
        assert len(alive) == 2
        del main, forgotten
        gc.collect()
        assert len(alive) == 0
    finally:
        gc.enable()
