"""Linear models that are learnt by stochastic gradient descent, and solved exactly in branches."""

from __future__ import annotations

import math
import warnings
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vertexsdk import InputError, StatefulLoop
from vertexsdk.algorithms.learning._block_learner import BlockLearner, changes_of_blocks
from vertexsdk.algorithms.learning._block_program import (
    LinearBlocksProgram,
    NamedLinearBlocksProgram,
)
from vertexsdk.algorithms.learning._features import as_matrix
from vertexsdk.algorithms.learning._learner import NOT_NEGATIVE, POSITIVE
from vertexsdk.algorithms.learning.linear_kernels import LossSums
from vertexsdk.algorithms.learning.linear_solver import minimise

# After `_block_learner`, which says how to install it.
from sklearn.base import ClassifierMixin, RegressorMixin  # isort: skip
from sklearn.exceptions import ConvergenceWarning  # isort: skip
from sklearn.utils.multiclass import check_classification_targets  # isort: skip
from sklearn.utils.validation import check_is_fitted, validate_data  # isort: skip


_LARGEST = 0.9  # rate times alpha
_RANGE = 64  # times the usual rate, from where it is soon there again


class LinearModel(BlockLearner):
    """A linear model: the smallest mean loss plus alpha / 2 times the squares of the weights.

    The base of `LinearSVM`, `LogisticSGD` and `LinearSGD`. The main loop descends by SGD over a
    sample; `solve` and `fit` take Newton steps over all instances, and end by a lower bound of the
    objective.

    Args:
        alpha: the strength of the L2 regulariser, as in `SGDClassifier`; 0 or more.
        fit_intercept: whether there is an intercept; it is not regularised.
        rate: the length of steps in the main loop, at first, and less than 1 / alpha; by default
            it follows from the first instances. In each pass it falls to 0.
        bold_driver: whether a pass that raises the objective is not taken, and halves the rate of
            the next one; each other pass raises it by 10 %.
        passes: the number of passes over the sample in each `partial_fit`; with 0 only `solve` and
            `fit` learn.
        sample: the approximate number of instances from which the main loop learns.
        tol: how far the objective of `solve` and `fit` may be above the smallest one, as a part of
            it.
        max_iter: the largest number of Newton steps of `solve` and `fit`; where it is reached, they
            warn.
        blocks: how many weights a block has, for models that are too large to be sent to every
            partition: weights are divided among the partitions in blocks, and a pass of the main
            loop sends those alone that its sample touches. By default all weights are sent.
            `solve` and `fit` have all weights in this process either way.
        backend: URL of the store; by default the memory of this process.
        loop: the name of the loop in the store; by default that of the class.
        partitions: the number of parts among which instances are divided; by default one, or one
            per executor.
        spark: the session whose executors hold the instances; None for this process.

    Attributes:
        coef_, intercept_: the weights; approximate after `partial_fit` and `forget`, exact after
            `fit` and `solve`. With `blocks`, they are read from the loop when they are asked for.
        objective_: the mean loss plus the regulariser, of more than two classes the mean of theirs;
            after `partial_fit` and `forget` that of the sample.
        n_iter_: how many iterations the last exact solution took.
        n_features_in_, feature_names_in_: as in scikit-learn.
    """

    _programs = MappingProxyType({"int": LinearBlocksProgram, "str": NamedLinearBlocksProgram})
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BlockLearner._parameter_constraints,
        "alpha": [NOT_NEGATIVE],
        "rate": [POSITIVE, None],
    }
    _loss: ClassVar[str]
    _step: ClassVar[float] = 0.5  # of the curvature that a row of length 1 has

    def __init__(
        self,
        *,
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        rate: float | None = None,
        bold_driver: bool = True,
        passes: int = 1,
        sample: int = 100_000,
        tol: float = 1e-4,
        max_iter: int = 200,
        blocks: int | None = None,
        backend: str | None = None,
        loop: str | None = None,
        partitions: int | None = None,
        spark: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.rate = rate
        self.bold_driver = bold_driver
        self.passes = passes
        self.sample = sample
        self.tol = tol
        self.max_iter = max_iter
        self.blocks = blocks
        self.backend = backend
        self.loop = loop
        self.partitions = partitions
        self.spark = spark

    def _first_model(self, features: Any, targets: Any, classes: Any) -> dict[str, Any]:
        classes = self._classes(targets, classes, features.shape[1])
        return {"rate": self.rate, **self._first_blocks(classes)}

    def _classes(self, targets: Any, classes: Any, width: int) -> dict[str, Any]:
        return {"weights": np.zeros((1, width + 1))}

    def _targets(self, targets: Any, model: dict[str, Any]) -> NDArray[np.float64]:
        return np.asarray(targets, np.float64)

    def _labels(self, model: dict[str, Any]) -> list[int]:
        """Return the class of each row of weights; -1 for numbers to predict."""
        return [-1]

    def _restart(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        self._reset(flow, model, len(self._labels(model)))
        model["rate"], model["objective"] = self.rate, math.inf

    def _descend(self, flow: StatefulLoop, model: dict[str, Any], share: float) -> None:
        form = model["width"], model["sparse"]
        squares, size = map(sum, zip(*flow.squares(*form, share), strict=True))
        if not size:  # the sample of few instances may have none
            return
        usual = self._step / (1.0 + squares / size)  # does not overshoot: rows are about that long
        if model["rate"] is None:
            model["rate"] = usual
        if self.alpha > 0:  # a longer step would shrink weights beyond 0
            model["rate"] = min(model["rate"], _LARGEST / self.alpha)
        descend = self._descend_all if model["blocks"] is None else self._descend_blocks
        earlier, objective = descend(flow, model, share)
        model["objective"] = earlier if objective is None else objective
        rate = model["rate"]
        if objective is None:  # the model is what it was
            model["rate"] = max(rate / 2, min(rate, usual / _RANGE))
        elif self.bold_driver:  # see section 6.2.2 of the Tornado paper, which takes each pass
            model["rate"] = min(1.1 * rate, max(rate, usual * _RANGE))

    def _bound(self, objective: float) -> float:
        """Return the objective above which a pass is not taken."""
        return objective if self.bold_driver else 2 * objective + 1

    def _descend_all(
        self, flow: StatefulLoop, model: dict[str, Any], share: float
    ) -> tuple[float, float | None]:
        """Run a pass whose weights go to all partitions.

        Returns:
            The objective before it, and after it; None where it is above the bound, and the model
            is what it was.
        """
        form = model["width"], model["sparse"]
        earlier, weights = model["objective"], np.empty_like(model["weights"])
        if not math.isfinite(earlier):
            earlier = self._objective(flow, model, model["weights"], share)
        for k, label in enumerate(self._labels(model)):
            parts = flow.descend(
                *form, share, label, model["weights"][k].tobytes(), self._loss, self.alpha,
                model["rate"], self.fit_intercept,
            )  # fmt: skip
            size = max(sum(n for _, n in parts), 1)
            weights[k] = sum(w * (n / size) for w, n in parts)
        objective = self._objective(flow, model, weights, share)
        if not objective <= self._bound(earlier):
            return earlier, None
        model["weights"] = weights
        return earlier, objective

    def _objective(
        self, flow: StatefulLoop, model: dict[str, Any], weights: NDArray[np.float64], share: float
    ) -> float:
        """Return the mean of the objectives of all rows of weights, over the sample."""
        labels = self._labels(model)
        total = 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # where the rate is too large
            for w, label in zip(weights, labels, strict=True):
                form = model["width"], model["sparse"], share, label, w.tobytes(), self._loss
                loss, size = map(sum, zip(*flow.measure(*form), strict=True))
                total += loss / max(size, 1) + self.alpha / 2 * float(w[:-1] @ w[:-1])
        return total / max(len(labels), 1)

    def _sums(
        self, flow: StatefulLoop, model: dict[str, Any], label: int, w: NDArray[np.float64],
        share: float, smoothing: float,
    ) -> tuple[LossSums, int]:  # fmt: skip
        parts = flow.gradient(
            model["width"], model["sparse"], share, label, w.tobytes(), self._loss, smoothing
        )
        sums = (sum(part) for part in zip(*(loss_sums for loss_sums, _ in parts), strict=True))
        return LossSums(*sums), sum(size for _, size in parts)

    def _best(self, flow: StatefulLoop, model: dict[str, Any], tol: float) -> None:
        form = model["width"], model["sparse"]
        size = max(sum(flow.size()), 1)
        weights, solutions = self._all_weights(flow, model), []
        for k, label in enumerate(self._labels(model)):

            def evaluate(w: NDArray[np.float64], smoothing: float, label: int = label) -> LossSums:
                sums, _ = self._sums(flow, model, label, w, -1.0, smoothing)
                return LossSums(*(part / size for part in sums))

            def hessian(w: Any, smoothing: float, label: int = label) -> Any:
                parts = flow.hessian(*form, label, w.tobytes(), self._loss, smoothing)
                return sum(parts) / size

            def product(w: Any, v: Any, smoothing: float, label: int = label) -> Any:
                parts = flow.hessian_product(
                    *form, label, w.tobytes(), v.tobytes(), self._loss, smoothing
                )
                return sum(parts) / size

            solution = minimise(
                evaluate, hessian, product, weights[k], alpha=self.alpha, tol=tol,
                max_iter=self.max_iter, loss=self._loss, fit_intercept=self.fit_intercept,
            )  # fmt: skip
            if not solution.converged:
                _warn_not_converged(self, solution.n_iter)
            solutions.append(solution)
        model["weights"] = np.array([one.w for one in solutions]).reshape(weights.shape)
        count = max(len(solutions), 1)
        model["objective"] = sum(one.objective for one in solutions) / count
        model["bound"] = sum(one.bound for one in solutions) / count
        model["n_iter"] = max((one.n_iter for one in solutions), default=0)

    def _arranged(self, weights: NDArray[np.float64], model: dict[str, Any]) -> tuple[Any, Any]:
        """Return the coefficients and intercepts of rows of weights, as attributes have them."""
        return weights[:, :-1].copy(), weights[:, -1].copy()

    def _scores(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, as_matrix(X), reset=False, accept_sparse="csr", dtype=np.float64)
        scores = self._scores_of_blocks(X)
        return X @ self.coef_.T + self.intercept_ if scores is None else scores


class _LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """A linear model of two classes, or of each class against all others.

    Instances store the code of their class. The weights have a row for each class, or where there
    are no more than two one, of the larger.
    """

    def _classes(self, targets: Any, classes: Any, width: int) -> dict[str, Any]:
        known = np.unique(_labels_of(targets if classes is None else classes))
        return {
            "classes": known, "codes": np.arange(len(known)), "next_code": len(known),
            "declared": 0 if classes is None else len(known),
            "weights": np.zeros((_problems(len(known)), width + 1)),
        }  # fmt: skip

    def _restart(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        parts = flow.classes(model["width"], model["sparse"])
        left = np.isin(model["codes"], np.concatenate(parts).astype(np.int64))
        left |= model["codes"] < model["declared"]
        model["classes"], model["codes"] = model["classes"][left], model["codes"][left]
        super()._restart(flow, model)

    def _targets(self, targets: Any, model: dict[str, Any]) -> NDArray[np.float64]:
        check_classification_targets(targets)
        classes = model["classes"]
        values = _labels_of(targets)
        given = np.unique(values)
        if len(classes) and (given.dtype.kind == "U") != (classes.dtype.kind == "U"):
            raise InputError(
                f"classes are all numbers or all str: the earlier ones are as {classes[0]!r}, "
                f"these as {given[0]!r}"
            )
        new = given[~np.isin(given, classes)]
        if len(new):
            codes = model["next_code"] + np.arange(len(new))
            model["next_code"] += len(new)
            model["classes"] = classes = np.concatenate([classes, new])
            model["codes"] = np.concatenate([model["codes"], codes])
            if model["blocks"] is None:
                model["weights"] = _for_classes(model["weights"], classes, len(new))
            else:
                changes = changes_of_blocks(classes, model["codes"], len(new))
                model["pending"] = model["pending"] + changes
        order = np.argsort(classes)
        places = order[np.searchsorted(classes[order], values)]
        own_codes: NDArray[np.float64] = model["codes"][places].astype(np.float64)
        return own_codes

    def _labels(self, model: dict[str, Any]) -> list[int]:
        codes: list[int] = model["codes"].tolist()
        classes = model["classes"]
        if len(codes) > 2:
            return codes
        return [codes[int(np.argmax(_ranks(classes)))] if codes else 0]

    def _publish(self, model: dict[str, Any]) -> None:
        super()._publish(model)
        self.classes_ = np.sort(model["classes"])

    def _arranged(self, weights: NDArray[np.float64], model: dict[str, Any]) -> tuple[Any, Any]:
        classes = model["classes"]
        return super()._arranged(
            weights[np.argsort(classes)] if len(classes) > 2 else weights, model
        )

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return on which side of the plane of each class instances are, and how far from it.

        Args:
            X: float64[n, d], as for `fit`.

        Returns:
            float64[n], positive for the larger of two classes; of more float64[n, classes].
        """
        scores: NDArray[np.float64] = self._scores(X)
        return scores if len(self.classes_) > 2 else scores[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each instance.

        Args:
            X: float64[n, d], as for `fit`.
        """
        scores = self.decision_function(X)
        if not len(self.classes_):
            raise InputError(f"this {type(self).__name__} has no instances left: add some")
        if len(self.classes_) > 2:
            places = scores.argmax(axis=1)
        else:
            places = np.minimum(scores > 0, len(self.classes_) - 1).astype(np.int64)
        chosen: NDArray[Any] = self.classes_[places]
        return chosen


def _labels_of(classes: Any) -> NDArray[Any]:
    """Return classes as an array that is not of objects."""
    values = np.asarray(classes)
    if values.dtype != object:
        return values
    labels = np.array(values.tolist())
    if labels.dtype == object or (labels.dtype.kind == "U") != all(
        isinstance(v, str) for v in values
    ):
        raise InputError("classes are all numbers or all str: convert them")
    return labels


def _problems(classes: int) -> int:
    """Return how many rows of weights there are."""
    return classes if classes > 2 else 1


def _ranks(classes: NDArray[Any]) -> NDArray[np.int64]:
    return np.argsort(np.argsort(classes))


def _for_classes(
    weights: NDArray[np.float64], classes: NDArray[Any], new: int
) -> NDArray[np.float64]:
    """Return the weights where some of the classes, the last ones, are new."""
    known = len(classes) - new
    if len(classes) <= 2:
        return np.zeros_like(weights)
    if known == 2:  # one against the other, which becomes each against all others
        larger = _ranks(classes[:2])[:, None]
        weights = np.where(larger == 1, weights, -weights)
    rows = np.zeros((len(classes), weights.shape[1]))
    rows[:known] = weights[:known] if known > 1 else 0.0
    return rows


def _warn_not_converged(learner: LinearModel, n_iter: int) -> None:
    warnings.warn(
        f"{type(learner).__name__}: the best model was not reached in {n_iter} iterations: give a "
        "larger max_iter, alpha or tol",
        ConvergenceWarning,
        stacklevel=4,
    )


class LinearSVM(_LinearClassifier):
    """A linear support vector machine: the hinge loss.

    Its parameters and attributes are those of `LinearModel`.

    Example:
        >>> import numpy as np
        >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [3.0, 2.0]])
        >>> svm = LinearSVM(alpha=0.01)
        >>> svm = svm.partial_fit(X, ["low", "low", "high", "high"], ids=[1, 2, 3, 4])
        >>> svm.solve().predict(X).tolist()
        ['low', 'low', 'high', 'high']
        >>> svm.forget([2]).forgotten
        1
        >>> svm.close()

    Source: Shi et al., "Tornado: a system for real-time iterative analysis over evolving data",
        SIGMOD 2016, sections 3.2 and 6.2.
    """

    _loss = "hinge"


class LogisticSGD(_LinearClassifier):
    """Logistic regression: the log loss, and probabilities.

    Its parameters and attributes are those of `LinearModel`.

    Example:
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> clicks = LogisticSGD(alpha=0.01).fit(X, [0, 0, 1, 1])
        >>> clicks.predict([[0.5], [2.5]]).tolist()
        [0, 1]
        >>> bool(clicks.predict_proba([[2.5]])[0, 1] > 0.9)
        True
        >>> clicks.close()

    Source: as of `LinearSVM`; Castro Fernandez et al., "Making state explicit for imperative big
        data processing", 2014, section 6.2.
    """

    _loss = "log"

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class.

        Args:
            X: float64[n, d], as for `fit`.

        Returns:
            float64[n, classes], in the order of `classes_`; of more than two classes those of each
            against all others, divided by their sum.
        """
        scores = self._scores(X)
        probabilities: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(0.5 * scores))
        if len(self.classes_) == 1:
            return np.ones_like(probabilities)
        if len(self.classes_) == 2:
            return np.hstack([1.0 - probabilities, probabilities])
        probabilities /= np.maximum(probabilities.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        return probabilities


class LinearSGD(RegressorMixin, LinearModel):  # type: ignore[misc]
    """Linear regression: half of the squared error, and alpha as in ridge regression.

    Its parameters and attributes are those of `LinearModel`.

    Example:
        >>> import numpy as np
        >>> X = np.arange(10.0)[:, None]
        >>> line = LinearSGD(alpha=0.0).fit(X, 2 * X[:, 0] + 1)
        >>> line.predict([[20.0]]).round(6).tolist()
        [41.0]
        >>> line.close()

    Source: as of `LinearSVM`.
    """

    _loss = "squared"
    _step = 0.1

    def _arranged(self, weights: NDArray[np.float64], model: dict[str, Any]) -> tuple[Any, Any]:
        return weights[0, :-1].copy(), float(weights[0, -1])

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the number that is predicted for each instance.

        Args:
            X: float64[n, d], as for `fit`.
        """
        scores: NDArray[np.float64] = self._scores(X)
        return scores
