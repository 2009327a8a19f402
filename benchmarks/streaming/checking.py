"""Whether an answer that a system wrote is right, by `benchmarks.reference`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import reference
from benchmarks.answers import Wrong, compact
from benchmarks.evolving.stream import Block


def check(
    program: str, edges: Block, origin: int, surfers: tuple[int, int], out: Path, batch: int
) -> None:
    """Compare the files ``answer-BATCH*.txt`` with the right answer for ``edges``.

    ``surfers``: each, and iterations of PageRank. A vertex that is left out has no path.

    Raises:
        Wrong: they differ.
    """
    source, target, value = edges
    ids, source, target = compact(source, target, [origin] if program == "shortest_paths" else [])
    n = ids.size
    vertex, found = _read(out, batch)
    at = np.searchsorted(ids, vertex)
    if vertex.size != np.unique(vertex).size:
        raise Wrong("a vertex has two values")
    if not np.array_equal(ids[np.minimum(at, n - 1)], vertex):
        raise Wrong("it has vertices that the graph has not")
    if program != "shortest_paths" and vertex.size != n:
        raise Wrong(f"its {vertex.size} vertices are not the graph's {n}")
    got = np.full(n, np.inf)
    got[at] = found
    right: npt.NDArray[np.generic]
    if program == "shortest_paths":
        first = int(np.searchsorted(ids, origin))
        right = reference.distances(source, target, value.astype(float), n, first)
    elif program == "components":
        # Each is named by its least vertex, whatever the system calls it.
        _, least, member = np.unique(got, return_index=True, return_inverse=True)
        got, right = least[member].astype(float), reference.components(source, target, n)
    else:
        right = reference.surfers(source, target, n, *surfers)
    wrong = int((got != right).sum())
    if wrong:
        raise Wrong(f"{wrong} of {n} values of {program} differ after batch {batch}")


def _read(out: Path, batch: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    parts = [p for p in out.iterdir() if p.stem.split("-")[:2] == ["answer", str(batch)]]
    fields = " ".join(part.read_text() for part in parts).split()
    return np.array(fields[::2], np.int64), np.array(fields[1::2], np.float64)
