"""The stateful class of k-means: instances by id, and the sums of each centre's instances."""

from __future__ import annotations

from typing import Any

import numpy as np

from vertexsdk import Partitioned, gather_all, on_all
from vertexsdk.algorithms.learning._program import InstancesProgram, NamedInstancesProgram
from vertexsdk.algorithms.learning.instances import Instances, InstancesState
from vertexsdk.algorithms.learning.means_kernels import Farthest, assign, farthest
from vertexsdk.algorithms.learning.rows import Floats, Ints, Rows, SparseRows
from vertexsdk.algorithms.learning.sample import Sample


class MeansState(InstancesState):
    """The instances of one partition, and what is nearest to each centre.

    In all methods `width` and `sparse` are those of the features, and `share` is that of the
    sample, or -1 for all instances.
    """

    def assign(
        self, width: int, sparse: bool, share: float, centres: bytes
    ) -> tuple[Floats, Ints, float]:
        """Return the sums, counts and inertia of `assign`."""
        sample = self._chosen_rows(width, sparse, share)
        assignment = assign(sample.rows, np.frombuffer(centres).reshape(-1, width))
        return assignment.sums, assignment.counts, assignment.inertia

    def farthest(
        self, width: int, sparse: bool, share: float, centres: bytes, count: int
    ) -> Farthest:
        """Return what `farthest` returns."""
        sample = self._chosen_rows(width, sparse, share)
        return farthest(sample.rows, np.frombuffer(centres).reshape(-1, width), count)

    def moments(self, width: int, sparse: bool) -> tuple[int, Any, Any]:
        """Return how many instances there are, and the sums of features and of their squares."""
        rows = self.all(width, sparse).rows
        if not isinstance(rows, SparseRows):
            return len(rows), rows.sum(axis=0), np.einsum("ij,ij->j", rows, rows)
        sums = np.bincount(rows.indices, rows.values, minlength=width)
        squares = np.bincount(rows.indices, rows.values**2, minlength=width)
        return self.size(), np.asarray(sums, np.float64), np.asarray(squares, np.float64)

    def points(self, width: int, sparse: bool, share: float) -> tuple[Floats, Rows]:
        """Return the sample, with the place of each instance in its order by chance."""
        sample, order = self.sample(width, sparse, share)
        return order, sample.rows

    def _chosen_rows(self, width: int, sparse: bool, share: float) -> Sample:
        return self.all(width, sparse) if share < 0 else self.sample(width, sparse, share)[0]


class MeansInstances(Instances):
    """The instances of k-means, by id.

    Args:
        key: the type of the ids, `int` or `str`.
    """

    state = MeansState
    reads = (*Instances.reads, "assign", "farthest", "moments", "points")
    without_key = reads


class MeansProgram(InstancesProgram):
    """Instances with int ids, and the model; arguments are as in `MeansState`."""

    instances = Partitioned(MeansInstances(int), key="id")

    def assign(self, width: int, sparse: bool, share: float, centres: bytes) -> list[Any]:
        """Return the sums of each partition."""
        return gather_all(on_all(self.instances).assign(width, sparse, share, centres))

    def farthest(
        self, width: int, sparse: bool, share: float, centres: bytes, count: int
    ) -> list[Any]:
        """Return the instances of each partition that are farthest from the centres."""
        return gather_all(on_all(self.instances).farthest(width, sparse, share, centres, count))

    def moments(self, width: int, sparse: bool) -> list[Any]:
        """Return the sums of each partition's instances, and of their squares."""
        return gather_all(on_all(self.instances).moments(width, sparse))

    def points(self, width: int, sparse: bool, share: float) -> list[Any]:
        """Return the samples of all partitions."""
        return gather_all(on_all(self.instances).points(width, sparse, share))


class NamedMeansProgram(NamedInstancesProgram, MeansProgram):
    """`MeansProgram` with str ids."""

    instances = Partitioned(MeansInstances(str), key="id")
