"""METIS (Karypis and Kumar, SIAM J. Sci. Comput. 1998), where `pymetis` is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError
from vertexsdk.graph.partitioners._structure import Structure

_MISSING = (
    "partitioner metis: METIS is not installed: pip install 'vertexsdk[metis]', or use fennel"
)


def require_metis() -> None:
    """Find out that METIS can be used.

    Raises:
        InputError: `pymetis` is not installed.
    """
    if importlib.util.find_spec("pymetis") is None:
        raise InputError(_MISSING)


def metis(graph: Structure, partitions: int, slack: float) -> NDArray[np.int32]:
    """Return the partition of each vertex (int32[n]) by multilevel k-way partitioning.

    Args:
        graph: of n vertices.
        partitions: how many.
        slack: how much fuller than its share a partition may be, as 0.05.

    Raises:
        InputError: `pymetis` is not installed.
    """
    require_metis()
    more = max(1, round(slack * 1000))  # in thousandths
    pymetis: Any = importlib.import_module("pymetis")
    _, partition = pymetis.part_graph(
        partitions,
        xadj=graph.start,
        adjncy=graph.target,
        vweights=graph.weight,
        options=pymetis.Options(ufactor=more),
        recursive=False,
    )
    return np.asarray(partition, np.int32)
