"""k-means over instances that arrive and are withdrawn."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vertexsdk import InputError, StatefulLoop
from vertexsdk.algorithms.learning._features import as_matrix, rows_of
from vertexsdk.algorithms.learning._learner import Learner
from vertexsdk.algorithms.learning._means_program import MeansProgram, NamedMeansProgram
from vertexsdk.algorithms.learning.means_kernels import Farthest, assign, lloyd, merge_farthest
from vertexsdk.algorithms.learning.rows import Floats, Ints, SparseRows

# After `_learner`, which says how to install it.
from scipy import sparse  # isort: skip
from sklearn.base import ClusterMixin  # isort: skip
from sklearn.cluster import kmeans_plusplus  # isort: skip
from sklearn.utils.validation import check_is_fitted, validate_data  # isort: skip

_STARTING = 5_000  # instances, about, from which the first centres are chosen


class KMeans(ClusterMixin, Learner):  # type: ignore[misc]
    """Centres with the smallest mean of squared distances to the nearest one.

    The main loop has centres of a sample: `partial_fit` moves each to the mean of the instances
    that are nearest to it. `solve` and `fit` do so with all instances until no centre moves, as
    Lloyd's algorithm does: a minimum from where they begin, and not of all there are.

    Args:
        n_clusters: the number of centres.
        init: "k-means++", or float64[k, d], the centres to begin with.
        passes: the number of passes over the sample in each `partial_fit`.
        sample: the approximate number of instances from which the main loop learns.
        tol: `solve` and `fit` end where the squares of all moves are at most this part of the mean
            variance of the features.
        max_iter: the largest number of rounds of `solve` and `fit`.
        backend: URL of the store; by default the memory of this process.
        loop: the name of the loop in the store; by default that of the class.
        partitions: the number of parts among which instances are divided; by default one, or one
            per executor.
        spark: the session whose executors hold the instances; None for this process.

    Attributes:
        cluster_centers_: float64[k, d], the centres; approximate after `partial_fit`.
        inertia_: the sum of squared distances; after `partial_fit` an estimate by the sample.
        objective_: `inertia_` divided by the number of instances.
        labels_: after `fit`, int32[n], the centre of each instance.
        n_iter_: how many rounds the last exact solution took.
        n_features_in_, feature_names_in_: as in scikit-learn.

    Example:
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
        >>> means = KMeans(2).partial_fit(X, ids=["a", "b", "c", "d"])
        >>> sorted(means.solve().cluster_centers_.tolist())
        [[0.5], [9.5]]
        >>> means.forget(["d"]).forgotten
        1
        >>> sorted(means.solve().cluster_centers_.tolist())
        [[0.5], [9.0]]
        >>> means.close()

    Source: Lloyd, "Least squares quantization in PCM", 1982; Arthur and Vassilvitskii,
        "k-means++", 2007; Shi et al., "Tornado", SIGMOD 2016, section 6.2.1.
    """

    _programs = MappingProxyType({"int": MeansProgram, "str": NamedMeansProgram})
    _needs_targets: ClassVar[bool] = False

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "k-means++",
        passes: int = 1,
        sample: int = 100_000,
        tol: float = 1e-4,
        max_iter: int = 300,
        backend: str | None = None,
        loop: str | None = None,
        partitions: int | None = None,
        spark: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.passes = passes
        self.sample = sample
        self.tol = tol
        self.max_iter = max_iter
        self.backend = backend
        self.loop = loop
        self.partitions = partitions
        self.spark = spark

    def fit(self, X: Any, y: Any = None) -> KMeans:
        """Learn from these instances alone, and have the centre of each in `labels_`.

        Args:
            X: float64[n, d], as for `Learner.fit`.
            y: not used.

        Returns:
            This learner.

        Raises:
            ValueError: features that cannot be learnt from, or fewer instances than centres.
        """
        if np.shape(X)[:1] and len(np.shape(X)) == 2 and np.shape(X)[0] < self.n_clusters:
            raise ValueError(
                f"n_samples={np.shape(X)[0]} should be >= n_clusters={self.n_clusters}"
            )
        super().fit(X)
        self.labels_ = self.predict(X)
        return self

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the nearest centre of each instance.

        Args:
            X: float64[n, d], as for `fit`.
        """
        check_is_fitted(self)
        X = validate_data(
            self, as_matrix(X), reset=False, accept_sparse="csr", dtype=np.float64, order="C"
        )
        return assign(rows_of(X), self.cluster_centers_).labels

    def _first_model(self, features: Any, targets: Any, classes: Any) -> dict[str, Any]:
        if not isinstance(self.n_clusters, int | np.integer) or self.n_clusters < 1:
            raise InputError(f"n_clusters is {self.n_clusters!r}; give 1 or more")
        centres = np.empty((0, features.shape[1]))
        if not isinstance(self.init, str):
            centres = np.array(self.init, np.float64)
            if centres.shape != (self.n_clusters, features.shape[1]):
                raise InputError(
                    f"init has the shape {centres.shape}; give {self.n_clusters} centres of "
                    f"{features.shape[1]} features"
                )
            if not np.isfinite(centres).all():
                raise InputError("init has numbers that are not finite: give other centres")
        elif self.init != "k-means++":
            raise InputError(f"init is {self.init!r}; give 'k-means++', or centres")
        return {"centres": centres, "first_centres": centres}

    def _targets(self, targets: Any, model: dict[str, Any]) -> NDArray[np.float64]:
        return np.empty(0)

    def _restart(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        model["centres"], model["objective"] = model["first_centres"], math.inf

    def _descend(self, flow: StatefulLoop, model: dict[str, Any], share: float) -> None:
        if not len(model["centres"]):
            self._choose_centres(flow, model)
        if len(model["centres"]):
            rounds = _Rounds(flow, model, share)
            centres, inertia, _ = lloyd(rounds.assign, model["centres"], 0.0, 1, rounds.farthest)
            model["centres"] = centres
            model["objective"] = inertia / max(rounds.count, 1)

    def _choose_centres(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        """Choose the first centres, if there are enough instances."""
        size = sum(flow.size())
        share = min(1.0, max(_STARTING, 20 * self.n_clusters) / max(size, 1))
        parts = flow.points(model["width"], model["sparse"], share)
        rows = [_matrix(part, model["width"]) for _, part in parts]
        points = sparse.vstack(rows, "csr") if model["sparse"] else np.vstack(rows)
        if points.shape[0] < self.n_clusters:
            return
        points = points[np.argsort(np.concatenate([order for order, _ in parts]), kind="stable")]
        chosen, _ = kmeans_plusplus(points, self.n_clusters, random_state=0)
        model["centres"] = chosen.toarray() if sparse.issparse(chosen) else np.array(chosen)

    def _best(self, flow: StatefulLoop, model: dict[str, Any], tol: float) -> None:
        if not len(model["centres"]):
            self._choose_centres(flow, model)
        centres = model["centres"]
        if not len(centres):
            raise InputError(
                f"{sum(flow.size())} instances are too few for {self.n_clusters} centres"
            )
        counts, sums, squares = zip(*flow.moments(model["width"], model["sparse"]), strict=True)
        count = max(sum(counts), 1)
        variances = np.maximum(sum(squares) / count - (sum(sums) / count) ** 2, 0.0)
        rounds = _Rounds(flow, model, -1.0)
        model["centres"], inertia, model["n_iter"] = lloyd(
            rounds.assign, centres, tol * float(variances.mean()), self.max_iter, rounds.farthest
        )
        model["objective"] = inertia / count

    def _publish(self, model: dict[str, Any]) -> None:
        if len(model["centres"]):
            self.cluster_centers_ = model["centres"].copy()
        self.objective_, self.n_iter_ = model["objective"], max(model["n_iter"], 1)
        self.inertia_ = self.objective_ * model["size"]


def _matrix(rows: Any, width: int) -> Any:
    """Return rows as SciPy or NumPy have them."""
    if isinstance(rows, SparseRows):
        return sparse.csr_array(
            (rows.values, rows.indices, rows.indptr), shape=(len(rows.indptr) - 1, width)
        )
    return rows


class _Rounds:
    """The requests of Lloyd's rounds to all partitions.

    Args:
        flow: the loop that has the instances.
        model: the form of their features.
        share: the share of the sample; -1 for all instances.
    """

    def __init__(self, flow: StatefulLoop, model: dict[str, Any], share: float) -> None:
        self._flow, self._form = flow, (model["width"], model["sparse"], share)
        self.count = 0

    def assign(self, centres: Floats) -> tuple[Floats, Ints, float]:
        """Return the sums, counts and inertia of all rows."""
        parts = self._flow.assign(*self._form, centres.tobytes())
        sums, counts, inertia = (sum(part) for part in zip(*parts, strict=True))
        self.count = int(counts.sum())
        return sums, counts, inertia

    def farthest(self, centres: Floats, count: int) -> Farthest:
        """Return the farthest of all rows."""
        return merge_farthest(self._flow.farthest(*self._form, centres.tobytes(), count), count)
