"""Whether an answer is right: each is compared with `reference` on the edges that there are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import reference
from benchmarks.evolving.stream import Source
from benchmarks.runner import Wrong as Wrong

EPSILON = 1e-6
"""PageRank ends when the ranks, which add up to 1, changed by no more than this in all (L1)."""

PAGERANK_ERROR = EPSILON * reference.DAMPING / (1 - reference.DAMPING)
"""What is then left to the fixed point, at most: damping + damping² + ... times the last change."""


IntArray = npt.NDArray[np.int64]
_DENSE = 1 << 27  # ids below are numbered by a table of all of them


def check(program: str, stream: Source, columns: Mapping[str, Any]) -> None:
    """Compare columns ``id`` and a field with the right answer for the edges in ``stream``.

    Raises:
        Wrong: they differ.
    """
    source, target, value = stream.columns()
    # The parameter of shortest paths names a vertex too.
    extra = [stream.origin] if program == "shortest_paths" else []
    ids, source, target = compact(source, target, extra)
    n = ids.size
    found = _aligned(np.asarray(columns["id"]), columns, ids)
    if program == "shortest_paths":
        at = int(np.searchsorted(ids, stream.origin))
        _same(found, reference.distances(source, target, value.astype(float), n, at), "distances")
    elif program == "components":
        least = ids[reference.components(source, target, n)]
        _same(found, least, "components")
    else:
        error = float(np.abs(found - reference.fixed_point(source, target, n)).sum())
        if error > PAGERANK_ERROR:
            raise Wrong(f"L1 error {error:.1e} of PageRank, {PAGERANK_ERROR:.1e} is allowed")


def compact(
    source: IntArray, target: IntArray, extra: Sequence[int]
) -> tuple[IntArray, IntArray, IntArray]:
    """The ids of all vertices, sorted, and the edges by their places among these.

    ``extra``: ids that are there without an edge too.
    """
    most = max([*extra, int(source.max(initial=0)), int(target.max(initial=0))])
    if most >= _DENSE:
        ids = np.unique(np.concatenate((source, target, np.array(extra, np.int64))))
        return ids, np.searchsorted(ids, source), np.searchsorted(ids, target)
    there = np.zeros(most + 1, bool)
    there[source] = there[target] = there[list(extra)] = True
    number = np.cumsum(there) - 1
    return np.flatnonzero(there), number[source], number[target]


def _aligned(
    ids: npt.NDArray[Any], columns: Mapping[str, Any], right: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    order = np.argsort(ids, kind="stable")
    if not np.array_equal(ids[order], right):
        raise Wrong(f"its {ids.size} vertices are not the graph's {right.size}")
    (field,) = (name for name in columns if name != "id")
    return np.asarray(columns[field])[order]


def _same(found: npt.NDArray[Any], right: npt.NDArray[Any], what: str) -> None:
    wrong = int((found != right).sum())
    if wrong:
        raise Wrong(f"{wrong} of {right.size} {what} differ")
