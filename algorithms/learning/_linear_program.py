"""The stateful class of linear models: instances by id, and sums over those of each partition."""

from __future__ import annotations

from typing import Any

import numpy as np

from vertexsdk import Partitioned, gather_all, on_all
from vertexsdk.algorithms.learning._program import InstancesProgram
from vertexsdk.algorithms.learning.instances import Instances, InstancesState
from vertexsdk.algorithms.learning.linear_kernels import (
    LossSums,
    hessian,
    hessian_product,
    loss_and_gradient,
    loss_sum,
    sgd_pass,
)
from vertexsdk.algorithms.learning.rows import Floats, SparseRows
from vertexsdk.algorithms.learning.sample import Sample

DECAY = 1.0  # of the rate within a pass of the main loop


class LinearState(InstancesState):
    """The instances of one partition, and sums over them.

    In all methods `width` and `sparse` are those of the features; `label` is the place of the class
    whose instances are 1 and all others -1, or -1 where targets are numbers to predict; `share` is
    that of the sample, or -1 for all instances.
    """

    def descend(
        self, width: int, sparse: bool, share: float, label: int, weights: bytes, loss: str,
        alpha: float, rate: float, intercept: bool,
    ) -> tuple[Floats, int]:  # fmt: skip
        """Return the weights after a pass of SGD over the sample, and its size."""
        sample = self._labelled(width, sparse, share, label)
        start = np.frombuffer(weights)
        end = sgd_pass(
            sample.rows, sample.targets, start, rate, alpha, loss, fit_intercept=intercept,
            decay=DECAY,
        )  # fmt: skip
        return end, len(sample)

    def squares(self, width: int, sparse: bool, share: float) -> tuple[float, int]:
        """Return the sum of the squares of the sample's features, and its size."""
        sample, _ = self.sample(width, sparse, share)

        def squares() -> float:
            rows = sample.rows
            values = rows.values if isinstance(rows, SparseRows) else rows.ravel()
            return float(values @ values)

        return self._once(("squares", share), squares), len(sample)

    def measure(
        self, width: int, sparse: bool, share: float, label: int, weights: bytes, loss: str
    ) -> tuple[float, int]:
        """Return the sum of the losses, and of how many instances."""
        sample = self._labelled(width, sparse, share, label)
        return loss_sum(sample.rows, sample.targets, np.frombuffer(weights), loss), len(sample)

    def gradient(
        self, width: int, sparse: bool, share: float, label: int, weights: bytes, loss: str,
        smoothing: float,
    ) -> tuple[LossSums, int]:  # fmt: skip
        """Return the sums of `loss_and_gradient`, and of how many instances."""
        sample = self._labelled(width, sparse, share, label)
        w = np.frombuffer(weights)
        return loss_and_gradient(sample.rows, sample.targets, w, loss, smoothing), len(sample)

    def hessian(
        self, width: int, sparse: bool, label: int, weights: bytes, loss: str, smoothing: float
    ) -> Floats:
        """Return the sums of `hessian`."""
        sample = self._labelled(width, sparse, -1.0, label)
        return hessian(sample.rows, sample.targets, np.frombuffer(weights), loss, smoothing)

    def hessian_product(
        self, width: int, sparse: bool, label: int, weights: bytes, vector: bytes, loss: str,
        smoothing: float,
    ) -> Floats:  # fmt: skip
        """Return the sums of `hessian_product`."""
        sample = self._labelled(width, sparse, -1.0, label)
        w, v = np.frombuffer(weights), np.frombuffer(vector)
        return hessian_product(sample.rows, sample.targets, w, v, loss, smoothing)

    def _labelled(self, width: int, sparse: bool, share: float, label: int) -> Sample:
        chosen = self.all(width, sparse) if share < 0 else self.sample(width, sparse, share)[0]
        if label < 0:
            return chosen

        def labels() -> Any:
            return np.where(chosen.targets == label, 1.0, -1.0)

        return Sample(chosen.rows, self._once(("labels", share, label), labels))


class LinearInstances(Instances):
    """The instances of a linear model, by id.

    Args:
        key: the type of the ids, `int` or `str`.
    """

    state = LinearState
    reads = (
        *Instances.reads, "descend", "squares", "measure", "gradient", "hessian", "hessian_product",
    )  # fmt: skip
    without_key = reads


class LinearProgram(InstancesProgram):
    """Instances with int ids, and the model; arguments are as in `LinearState`."""

    instances = Partitioned(LinearInstances(int), key="id")

    def descend(
        self, width: int, sparse: bool, share: float, label: int, weights: bytes, loss: str,
        alpha: float, rate: float, intercept: bool,
    ) -> list[Any]:  # fmt: skip
        """Return the weights after a pass over the sample of each partition, and its size."""
        return gather_all(
            on_all(self.instances).descend(
                width, sparse, share, label, weights, loss, alpha, rate, intercept
            )
        )

    def squares(self, width: int, sparse: bool, share: float) -> list[Any]:
        """Return the squares of each partition's sample, and its size."""
        return gather_all(on_all(self.instances).squares(width, sparse, share))

    def measure(
        self, width: int, sparse: bool, share: float, label: int, weights: bytes, loss: str
    ) -> list[Any]:
        """Return the losses of each partition."""
        return gather_all(
            on_all(self.instances).measure(width, sparse, share, label, weights, loss)
        )

    def gradient(
        self, width: int, sparse: bool, share: float, label: int, weights: bytes, loss: str,
        smoothing: float,
    ) -> list[Any]:  # fmt: skip
        """Return the losses and gradients of each partition."""
        return gather_all(
            on_all(self.instances).gradient(width, sparse, share, label, weights, loss, smoothing)
        )

    def hessian(
        self, width: int, sparse: bool, label: int, weights: bytes, loss: str, smoothing: float
    ) -> list[Any]:
        """Return the second derivatives of each partition."""
        return gather_all(
            on_all(self.instances).hessian(width, sparse, label, weights, loss, smoothing)
        )

    def hessian_product(
        self, width: int, sparse: bool, label: int, weights: bytes, vector: bytes, loss: str,
        smoothing: float,
    ) -> list[Any]:  # fmt: skip
        """Return the second derivatives of each partition times a vector."""
        return gather_all(
            on_all(self.instances).hessian_product(
                width, sparse, label, weights, vector, loss, smoothing
            )
        )
