"""Samples of instances, and the order by chance that decides which instances are in them.

Both are kept from one change of the instances to the next, as most of them stay: what is gone is
left out, and what is new is put between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.algorithms.learning.rows import Floats, Ints, Rows, SparseRows

_RUN = 8  # rows, on average, from which to copy runs of them is quicker than to copy each


class Sample(NamedTuple):
    """Instances as columns.

    Attributes:
        rows: float64[n, d], or sparse rows.
        targets: float64[n], the place of the class, or the number to predict.
    """

    rows: Rows
    targets: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, places: NDArray[np.int64]) -> Sample:
        """Return some of them, in this order."""
        rows, targets = self.rows, self.targets[places]
        if not isinstance(rows, SparseRows):
            return Sample(rows[places], targets)
        counts = rows.indptr[places + 1] - rows.indptr[places]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        cells = np.arange(indptr[-1]) + np.repeat(rows.indptr[places] - indptr[:-1], counts)
        chosen = SparseRows(indptr, rows.indices[cells], rows.values[cells], rows.dimension)
        return Sample(chosen, targets)

    def rows_at(self, first: int, last: int) -> Sample:
        """Return the instances first, first + 1, ... last - 1, which are not copied."""
        rows, targets = self.rows, self.targets[first:last]
        if not isinstance(rows, SparseRows):
            return Sample(rows[first:last], targets)
        begin, end = rows.indptr[first], rows.indptr[last]
        indptr = rows.indptr[first : last + 1] - begin
        cells = rows.indices[begin:end], rows.values[begin:end]
        return Sample(SparseRows(indptr, *cells, rows.dimension), targets)

    @staticmethod
    def join(parts: Sequence[Sample]) -> Sample:
        """Return the instances of several samples, at least one, one after the other."""
        targets = np.concatenate([part.targets for part in parts])
        sparse = [part.rows for part in parts if isinstance(part.rows, SparseRows)]
        if not sparse:
            rows: Rows = np.concatenate([part.rows for part in parts])
            return Sample(rows, targets)
        counts = [np.diff(part.indptr) for part in sparse]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))])
        indices = np.concatenate([part.indices for part in sparse])
        values = np.concatenate([part.values for part in sparse])
        return Sample(SparseRows(indptr, indices, values, sparse[0].dimension), targets)


class ChanceOrder(NamedTuple):
    """The places of all instances in the order by chance, and the newest sample.

    Attributes:
        order: float64[n], ascending, from 0 to 1.
        places: int64[n]; where two have the same order, the smaller place is first.
        taken: int64[k], the places of the sample.
        sample: the instances at these; None if none is taken yet.
    """

    order: Floats
    places: Ints
    taken: Ints
    sample: Sample | None

    @classmethod
    def of(cls, order: Floats, places: Ints) -> ChanceOrder:
        """Return the order of places, which are ascending.

        Args:
            order: the order of all places.
        """
        places = places[np.argsort(order[places], kind="stable")]
        return cls(order[places], places, places[:0], None)

    def changed(self, order: Floats, removed: Ints, new: Ints) -> ChanceOrder:
        """Return it without some places, and with others.

        Args:
            order: the order of all places.
        """
        is_removed = np.zeros(len(order), np.bool_)
        is_removed[removed] = True
        left = ~is_removed[self.places]
        places, old_order = self.places[left], self.order[left]
        new = new[np.argsort(order[new], kind="stable")]
        at = np.searchsorted(old_order, order[new])
        places, old_order = np.insert(places, at, new), np.insert(old_order, at, order[new])
        if (old_order[1:] == old_order[:-1]).any():  # of those the smaller place is first
            return ChanceOrder.of(order, np.sort(places))._replace(
                taken=self.taken, sample=self.sample
            )
        return self._replace(order=old_order, places=places)

    def take(self, instances: Sample, share: float) -> ChanceOrder:
        """Return it with the sample of those whose order is below the share.

        Args:
            instances: by place.
        """
        wanted = self.places[: np.searchsorted(self.order, share)]
        at = np.full(len(instances), -1)
        at[self.taken] = np.arange(len(self.taken))
        sources = at[wanted]
        new = np.flatnonzero(sources < 0)
        sources[new] = len(self.taken) + 1 + np.arange(len(new))  # follows none that is known
        runs = np.flatnonzero(np.diff(sources, prepend=-2) != 1)
        if self.sample is None or len(runs) * _RUN >= len(wanted):
            return self._replace(taken=wanted, sample=instances.take(wanted))
        firsts, lengths = sources[runs].tolist(), np.diff(runs, append=len(wanted)).tolist()
        fresh, known = instances.take(wanted[new]), len(self.taken)
        parts = [
            self.sample.rows_at(first, first + length) if first < known
            else fresh.rows_at(first - known - 1, first - known - 1 + length)
            for first, length in zip(firsts, lengths, strict=True)
        ]  # fmt: skip
        return self._replace(taken=wanted, sample=Sample.join(parts))
