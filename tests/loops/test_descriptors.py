"""A process that may open no more files: what it cannot do is said in one line, nothing leaks."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.open_files import open_files
from tests.support.waiting import until
from vertexsdk import Graph, MainLoop, read, run
from vertexsdk.errors import VertexError
from vertexsdk.transport.transport import collect_unused

EDGES = [(k, (k + 1) % 20) for k in range(20)]
NUMBERS = itertools.count()  # of branches: one that failed may have left its name
COMPONENTS = dict.fromkeys(range(20), 0)


def descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd")}


def files_after_collection() -> list[str]:
    """What this process has open, once the graphs are closed that nothing refers to."""
    collect_unused(seconds=10)
    return open_files()


@contextlib.contextmanager
def few_descriptors(free: int) -> Iterator[None]:
    """Let this process open so many files, and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unused = (number for number in range(soft) if number not in descriptors())
    limit = next(number for k, number in enumerate(unused) if k == free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def graph(partitions: int) -> Graph:
    return Graph.from_arrays(*zip(*EDGES, strict=True), partitions=partitions)


def one_run(url: str, partitions: int) -> Any:
    with run("wcc", graph(partitions), backend=url, loop="r", replace=True) as result:
        return result.to_dict()


def one_loop(url: str, partitions: int) -> Any:
    options = {"backend": url, "loop": f"m{partitions}"}
    with MainLoop("wcc", graph(partitions), snapshot_every=1, replace=True, **options) as main:
        main.query().close()
        main.ingest([("+", 0, 30), ("-", 0, 30)])
        main.snapshot()
        with main.fork(f"f{next(NUMBERS)}") as branch:
            branch.apply([("-", 0, 1)])
            branch.start().result().close()
    with MainLoop.resume(None, "wcc", **options) as main, main.query() as answer:
        return {v: x for v, x in answer.to_dict().items() if v != 30}


def one_read(url: str, partitions: int) -> Any:
    with read(url, "kept") as result:
        return result.to_dict()


@pytest.mark.sample(3)
@pytest.mark.parametrize("backend", ["lmdb", "memory"])
@pytest.mark.parametrize("work", [one_run, one_loop, one_read])
def test_no_more_files(work: Callable[[str, int], Any], backend: str, tmp_path: Path) -> None:
    url = f"{backend}://{tmp_path}/state"
    run("wcc", graph(1), backend=url, loop="kept").close()
    assert work(url, 2) == COMPONENTS
    files, messages = files_after_collection(), []
    for free in (0, 1, 2, 3, 4, 6, 8, 12, 32):
        try:
            with few_descriptors(free):
                assert work(url, 1 + free % 2) == COMPONENTS
            messages.append("")
        except VertexError as error:
            messages.append(str(error))
    assert messages[-1] == ""
    assert [m for m in messages if "\n" in m] == []
    assert work(url, 2) == COMPONENTS
    # A thread opens a store for a moment, to release a version that nothing refers to.
    until(lambda: len(files_after_collection()) <= len(files), seconds=10)
    assert len(files_after_collection()) <= len(files), Counter(files_after_collection()) - Counter(
        files
    )
