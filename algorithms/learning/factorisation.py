"""Matrix factorisation of ratings that arrive and are withdrawn."""

from __future__ import annotations

import math
import warnings
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import InputError, StatefulLoop
from vertexsdk.algorithms.learning._factor_program import FactorProgram, NamedFactorProgram
from vertexsdk.algorithms.learning._learner import Learner
from vertexsdk.algorithms.learning.factor_kernels import solve_equations
from vertexsdk.algorithms.learning.labels import (
    Labels,
    Pairs,
    as_labels,
    as_pairs,
    first_factors,
    places_of,
    with_codes,
)
from vertexsdk.algorithms.learning.rows import Floats

# After `_learner`, which says how to install it.
from sklearn.base import RegressorMixin  # isort: skip
from sklearn.exceptions import ConvergenceWarning  # isort: skip
from sklearn.utils.validation import check_array, check_is_fitted  # isort: skip
from sklearn.utils.validation import check_consistent_length, column_or_1d  # isort: skip

_SIDES = ("user", "item")


class MatrixFactorisation(RegressorMixin, Learner):  # type: ignore[misc]
    """Recommendations: a few factors of each user and item, whose product is the rating.

    The rating of item i by user u is predicted as `mean + u·v`, where u and v are their factors.
    `X` of all methods is [n, 2], a user and an item for each rating, each int or str: a list of
    pairs, an array, an Arrow table, or a data frame; `y` is float64[n], the ratings. A user and an
    item may have several ratings together, with an id each. Smallest is

        objective = (Σ (rating - mean - u·v)² + alpha (Σ n_u |u|² + Σ n_v |v|²)) / n

    over n ratings, n_u of the user and n_v of the item, as in Spark's ALS with `regParam=alpha`,
    which has no mean.

    Each round computes the best factors of the users while those of the items stay, and the other
    way round. The main loop makes rounds over the sample. `solve` and `fit` make rounds over all
    ratings until the objective hardly falls, which is a minimum near where they begin, and not
    always the smallest of all. The first factors follow from the labels of the items alone: what is
    learnt is that of the ratings, whichever came first or were withdrawn.

    scikit-learn's `check_estimator` does not apply, as `X` is not numbers.

    Args:
        n_factors: the number of factors of each user and item.
        alpha: the factor of the regulariser, which keeps factors small; more than 0.
        passes: over the sample, in each `partial_fit`.
        sample: from how many ratings the main loop learns, about.
        tol: `solve` and `fit` end where a round lowers the objective by at most this part of it.
        max_iter: rounds of `solve` and `fit`.
        backend: URL of the store; by default the memory of this process.
        loop: the name of the loop in the store; by default that of the class.
        partitions: among how many the ratings are divided; by default one, or one per executor.
        spark: the session on whose executors they are; None for this process.

    Attributes:
        users_, items_: the labels that have ratings, ascending.
        user_factors_, item_factors_: float64[users, k] and float64[items, k], in this order; zeros
            where the sample has no rating yet.
        mean_: the mean of all ratings.
        objective_: as above; after `partial_fit` over the sample.
        n_iter_: the number of rounds of the last exact solution.

    Example:
        >>> X = [("Ann", 1), ("Ann", 2), ("Bob", 1), ("Bob", 2), ("Cid", 1)]
        >>> ratings = MatrixFactorisation(2, alpha=0.1)
        >>> ratings = ratings.partial_fit(X, [5, 1, 4, 1, 5], ids=range(5))
        >>> ratings.solve().recommend("Cid", 1)[0].tolist()
        [1]
        >>> ratings.forget([4]).forgotten
        1
        >>> ratings.users_.tolist()
        ['Ann', 'Bob']
        >>> ratings.close()

    Source: Zhou et al., "Large-scale parallel collaborative filtering for the Netflix prize", 2008
        (ALS-WR); Koren et al., "Matrix factorization techniques for recommender systems", 2009.
    """

    _programs = MappingProxyType({"int": FactorProgram, "str": NamedFactorProgram})

    def __init__(
        self,
        n_factors: int = 10,
        *,
        alpha: float = 0.1,
        passes: int = 1,
        sample: int = 100_000,
        tol: float = 1e-4,
        max_iter: int = 100,
        backend: str | None = None,
        loop: str | None = None,
        partitions: int | None = None,
        spark: Any = None,
    ) -> None:
        self.n_factors = n_factors
        self.alpha = alpha
        self.passes = passes
        self.sample = sample
        self.tol = tol
        self.max_iter = max_iter
        self.backend = backend
        self.loop = loop
        self.partitions = partitions
        self.spark = spark

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the ratings that are predicted.

        Args:
            X: [n, 2], a user and an item each.

        Returns:
            float64[n]; the mean of all ratings where the user or the item has none.

        Raises:
            InputError: labels of another type.
        """
        check_is_fitted(self)
        pairs = as_pairs(X)
        users = places_of(self.users_, pairs.users, "users")
        items = places_of(self.items_, pairs.items, "items")
        known = (users >= 0) & (items >= 0)
        predicted = np.full(len(known), self.mean_)
        predicted[known] += np.einsum(
            "nk,nk->n", self.user_factors_[users[known]], self.item_factors_[items[known]]
        )
        return predicted

    def recommend(self, user: int | str, n: int = 10) -> tuple[Labels, NDArray[np.float64]]:
        """Return the items with the highest predicted ratings, the highest first.

        Args:
            user: its label.
            n: how many items at most.

        Returns:
            The labels of the items, those that the user has rated among them, and float64[n], their
            predicted ratings.

        Raises:
            InputError: the user has no ratings.

        Example:
            >>> ratings = MatrixFactorisation(1).fit([(1, "a"), (1, "b"), (2, "b")], [2, 4, 5])
            >>> ratings.recommend(1, 1)[0].tolist()
            ['b']
            >>> ratings.close()
        """
        check_is_fitted(self)
        place = places_of(self.users_, as_labels([user], "users"), "users")[0]
        if place < 0:
            raise InputError(f"user {user!r} has no ratings; give one of users_")
        scores = self.mean_ + self.item_factors_ @ self.user_factors_[place]
        chosen = np.argsort(-scores, kind="stable")[:n]
        return self.items_[chosen], scores[chosen]

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        X = as_pairs(X)
        if not X.shape[0]:
            raise InputError("no ratings are given; give at least one")
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        check_consistent_length(X.users, y)
        return X, y

    def _first_model(self, features: Pairs, targets: Any, classes: Any) -> dict[str, Any]:
        if not isinstance(self.n_factors, int | np.integer) or self.n_factors < 1:
            raise InputError(f"n_factors is {self.n_factors!r}; give 1 or more")
        if not 0 < self.alpha < math.inf:
            raise InputError(f"alpha is {self.alpha!r}; give a number above 0")
        model: dict[str, Any] = {"mean": 0.0, "learnt": np.zeros(0, np.bool_)}
        for side, labels in zip(_SIDES, features, strict=True):
            model[f"{side}s"] = labels[:0]
            model[f"{side}_counts"] = np.zeros(0, np.int64)
            model[f"{side}_factors"] = np.zeros((0, self.n_factors))
        return model

    def _features(self, features: Pairs, model: dict[str, Any]) -> Floats:
        coded = [
            with_codes(model[f"{side}s"], model[f"{side}_counts"] == 0, labels, f"{side}s")
            for side, labels in zip(_SIDES, features, strict=True)
        ]
        for side, (_, labels, new) in zip(_SIDES, coded, strict=True):
            if len(new):
                model[f"{side}s"] = labels
                # Not free any more, even if the loop fails before it has the ratings.
                model[f"{side}_counts"] = _grown(model[f"{side}_counts"], len(labels), new, 1)
                first = first_factors(labels[new], self.n_factors) if side == "item" else 0.0
                model[f"{side}_factors"] = _grown(model[f"{side}_factors"], len(labels), new, first)
        if len(coded[1].new):
            model["learnt"] = _grown(model["learnt"], len(model["items"]), coded[1].new, False)
        return np.column_stack([one.codes for one in coded]).astype(np.float64)

    def _targets(self, targets: Any, model: dict[str, Any]) -> NDArray[np.float64]:
        return np.asarray(targets, np.float64)

    def _count(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        parts = flow.totals(len(model["users"]), len(model["items"]))
        total, users, items = (sum(part) for part in zip(*parts, strict=True))
        model["size"] = size = int(users.sum())
        model["mean"] = total / size if size else 0.0
        if model["item_factors"].shape[1] != self.n_factors:  # by `set_params`, or `resume`
            self._restart(flow, model)
        for side, counts in zip(_SIDES, (users, items), strict=True):
            emptied = (counts == 0) & (model[f"{side}_counts"] > 0)
            if emptied.any():
                for name in (f"{side}s", f"{side}_factors"):
                    model[name] = model[name].copy()
                    model[name][emptied] = np.zeros((), model[name].dtype)
            model[f"{side}_counts"] = counts

    def _restart(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        model["user_factors"] = np.zeros((len(model["users"]), self.n_factors))
        model["item_factors"] = first_factors(model["items"], self.n_factors)
        model["learnt"] = np.zeros_like(model["learnt"])
        model["objective"] = math.inf

    def _descend(self, flow: StatefulLoop, model: dict[str, Any], share: float) -> None:
        error = penalty = 0.0
        size = 1.0
        for side, name, others in ((0, "user", "item"), (1, "item", "user")):
            parts = flow.equations(
                share, side, len(model[f"{name}s"]), model["mean"],
                model[f"{others}_factors"].tobytes(), self.n_factors,
            )  # fmt: skip
            sums: Any = sum(parts)
            solution = solve_equations(sums, self.n_factors, self.alpha)
            factors = model[f"{name}_factors"].copy()
            factors[solution.there] = solution.factors
            model[f"{name}_factors"] = factors
            error, size = solution.error, max(float(sums[:, -1].sum()), 1.0)
            penalty += solution.penalty
        model["learnt"] = model["learnt"] | (sums[:, -1] > 0)
        model["objective"] = (error + self.alpha * penalty) / size

    def _best(self, flow: StatefulLoop, model: dict[str, Any], tol: float) -> None:
        self._count(flow, model)
        previous, model["n_iter"] = math.inf, 0
        while model["n_iter"] < self.max_iter:
            self._descend(flow, model, -1.0)
            model["n_iter"] += 1
            if previous - model["objective"] <= tol * previous < math.inf:
                return
            previous = model["objective"]
        warnings.warn(
            f"{type(self).__name__}: the objective still falls after {self.max_iter} rounds: give "
            "a larger max_iter, alpha or tol",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _publish(self, model: dict[str, Any]) -> None:
        learnt = {"user": True, "item": model["learnt"][:, None]}
        for side in _SIDES:
            labels, there = model[f"{side}s"], np.flatnonzero(model[f"{side}_counts"])
            there = there[np.argsort(labels[there])]
            factors = np.where(learnt[side], model[f"{side}_factors"], 0.0)
            setattr(self, f"{side}s_", labels[there])
            setattr(self, f"{side}_factors_", factors[there])
        self.mean_ = model["mean"]
        self.objective_, self.n_iter_ = model["objective"], max(model["n_iter"], 1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.string = False, True
        return tags


def _grown(values: NDArray[Any], size: int, places: Any, new: Any) -> NDArray[Any]:
    """Return values with room for so many, and new ones at these places."""
    grown = np.zeros((size, *values.shape[1:]), values.dtype)
    grown[: len(values)] = values
    grown[places] = new
    return grown
