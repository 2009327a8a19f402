"""METIS (Karypis and Kumar, SIAM J. Sci. Comput. 1998), where a module for it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError
from vertexsdk.graph.partitioners._structure import Structure

__all__ = ["metis", "require_metis"]

_MISSING = (
    "partitioner metis: METIS is not installed: pip install 'vertexsdk[metis]', or use fennel"
)


def require_metis() -> None:
    """Find out that METIS can be used.

    Raises:
        InputError: neither `pymetis` nor `metis` is installed.
    """
    if not any(map(_installed, ("pymetis", "metis"))):
        raise InputError(_MISSING)


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def metis(graph: Structure, partitions: int, slack: float) -> NDArray[np.int32]:
    """Return the partition of each vertex (int32[n]) by multilevel k-way partitioning.

    Args:
        graph: of n vertices.
        partitions: how many.
        slack: how much fuller than its share a partition may be, as 0.05.

    Raises:
        InputError: neither `pymetis` nor `metis` is installed.
    """
    require_metis()
    more = max(1, round(slack * 1000))  # in thousandths
    if _installed("pymetis"):
        pymetis: Any = importlib.import_module("pymetis")
        _, partition = pymetis.part_graph(
            partitions,
            xadj=graph.start,
            adjncy=graph.target,
            vweights=graph.weight,
            options=pymetis.Options(ufactor=more),
            recursive=False,
        )
    else:
        module: Any = importlib.import_module("metis")
        start = graph.start.tolist()
        rows = [graph.target[a:z].tolist() for a, z in zip(start, start[1:], strict=False)]
        adjacency = module.adjlist_to_metis(rows, nodew=graph.weight.tolist())
        _, partition = module.part_graph(adjacency, partitions, recursive=False, ufactor=more)
    return np.asarray(partition, np.int32)
