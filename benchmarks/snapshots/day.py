"""What is on disk after a day of snapshots, one a second, simulated as fast as it goes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.snapshots.sizes import Sizes
from vertexsdk import Budget, Graph, MainLoop, run
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.state import open_store

MOMENTS = (10, 25, 50, 75, 100)  # percent of the day
_VERTICES, _EDGES = 1_000, 4_000


def day(process: CaseProcess, sizes: Sizes) -> None:
    """Note bytes on disk, segments and versions at some moments of the day."""
    rng = np.random.default_rng(3)
    pairs = np.unique(rng.integers(0, _VERTICES, (2, _EDGES)), axis=1)
    length = rng.random(pairs.shape[1])
    folder = Path(process.scratch, "state")
    url = f"lmdb://{folder}"
    graph = Graph.from_arrays(*pairs, length)
    moments = {max(1, sizes.snapshots * each // 100): each for each in MOMENTS}
    with MainLoop(
        ShortestPaths, graph, params={"origin": int(pairs[0, 0])}, backend=url, loop="day",
        budget=Budget(), snapshot_every=1, snapshots="synchronous",
    ) as main:  # fmt: skip
        main.query().close()
        first, began = main.progress()["snapshots"], time.perf_counter()
        for number in range(1, sizes.snapshots + 1):
            at = int(rng.integers(pairs.shape[1]))
            length[at] = rng.random()
            main.ingest([("+", int(pairs[0, at]), int(pairs[1, at]), float(length[at]))])
            if number in moments:
                _look(process, folder, url, moments[number])
        process.note("seconds", time.perf_counter() - began)
        process.note("snapshots", main.progress()["snapshots"] - first)
        _check(main, pairs, length)


def _look(process: CaseProcess, folder: Path, url: str, moment: int) -> None:
    files = [file for file in folder.rglob("*") if file.is_file()]
    process.note(f"bytes {moment}", sum(file.stat().st_blocks * 512 for file in files))
    with open_store(url) as store:
        segments = list(store.backend.list_segments())
        process.note(f"segments {moment}", len(segments))
        process.note(f"versions {moment}", len(store.versions("day")))


def _check(main: MainLoop, pairs: np.ndarray, length: np.ndarray) -> None:
    right = run(
        ShortestPaths, Graph.from_arrays(*pairs, length), params=main.params,
        backend="memory://right", progress=False,
    )  # fmt: skip
    answer = main.query()
    if answer.to_dict() != right.to_dict():
        raise Wrong("the distances are not those of a run from scratch")
    answer.close()
    right.close()
