"""The stateful class of a matrix factorisation: ratings by id, and sums over those of each user."""

from __future__ import annotations

from typing import Any

import numpy as np

from vertexsdk import Partitioned, gather_all, on_all
from vertexsdk.algorithms.learning._program import InstancesProgram, NamedInstancesProgram
from vertexsdk.algorithms.learning.factor_kernels import Ratings, by_code, sum_equations
from vertexsdk.algorithms.learning.instances import Instances, InstancesState
from vertexsdk.algorithms.learning.rows import Floats, Ints


class FactorState(InstancesState):
    """The ratings of one partition; the features of each are the codes of its user and its item."""

    def totals(self, users: int, items: int) -> tuple[float, Ints, Ints]:
        """Return the sum of the ratings, and how many each of so many users and items has."""
        ratings = self.all(2, False)
        codes = ratings.rows.astype(np.int64)  # type: ignore[union-attr]
        return (
            float(ratings.targets.sum()),
            np.bincount(codes[:, 0], minlength=users),
            np.bincount(codes[:, 1], minlength=items),
        )

    def equations(
        self, share: float, side: int, count: int, mean: float, factors: bytes, n_factors: int
    ) -> Floats:
        """Return what `sum_equations` does.

        Args:
            share: the share of the sample; -1 for all ratings.
            side: 0 for users, 1 for items.
            count: the number of these.
            mean: the mean of all ratings.
            factors: the factors of the others.
            n_factors: the number of factors of each.
        """

        def choose() -> Ratings:
            chosen = self.all(2, False) if share < 0 else self.sample(2, False, share)[0]
            codes = chosen.rows.astype(np.int64)  # type: ignore[union-attr]
            return by_code(codes[:, side], codes[:, 1 - side], chosen.targets, count)

        ratings: Ratings = self._once(("ratings", share, side, count), choose)
        return sum_equations(ratings, mean, np.frombuffer(factors).reshape(-1, n_factors))


class FactorInstances(Instances):
    """The ratings of a matrix factorisation, by id.

    Args:
        key: the type of the ids, `int` or `str`.
    """

    state = FactorState
    reads = (*Instances.reads, "totals", "equations")
    without_key = reads


class FactorProgram(InstancesProgram):
    """Ratings with int ids, and the model; arguments are as in `FactorState`."""

    instances = Partitioned(FactorInstances(int), key="id")

    def totals(self, users: int, items: int) -> list[Any]:
        """Return the sums of each partition, and its numbers of ratings."""
        return gather_all(on_all(self.instances).totals(users, items))

    def equations(
        self, share: float, side: int, count: int, mean: float, factors: bytes, n_factors: int
    ) -> list[Any]:
        """Return the sums of each partition."""
        return gather_all(
            on_all(self.instances).equations(share, side, count, mean, factors, n_factors)
        )


class NamedFactorProgram(NamedInstancesProgram, FactorProgram):
    """`FactorProgram` with str ids."""

    instances = Partitioned(FactorInstances(str), key="id")
