"""What all learners have in common: instances in a stateful class, a main loop, and branches."""

from __future__ import annotations

import io
import json
import math
import operator
import threading
import uuid
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from vertexsdk import InputError, Stateful, StatefulLoop
from vertexsdk.algorithms.learning._features import as_form, as_matrix, packed

try:
    from scipy import sparse
    from sklearn.base import BaseEstimator, clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import validate_data
except ImportError as error:
    raise ImportError(
        "vertexsdk.algorithms.learning needs scikit-learn: pip install 'vertexsdk[learning]'"
    ) from error

_STEADY = 10  # passes at most, after which a model that began anew is near the best one


class Receipt(NamedTuple):
    """What `forget` did.

    Attributes:
        forgotten: how many of the ids had an instance.
        version: of the loop, from which on no state depends on them: neither the instances nor
            the model.
    """

    forgotten: int
    version: int


class Learner(BaseEstimator):  # type: ignore[misc]
    """A model of instances that arrive, and are withdrawn, all the time.

    Instances are in a stateful class. The *main loop*, which `partial_fit` runs, keeps a model near
    the best one by a few passes over a sample. `solve` forks a *branch*, which begins with that
    model, and computes the best one of all instances of the instant.
    """

    # What subclasses have: the stateful class by the type of ids, and `__init__` with these.
    _programs: ClassVar[Mapping[str, type[Stateful]]]
    sample: int
    passes: int
    tol: float
    backend: str | None
    loop: str | None
    partitions: int | None
    spark: Any

    # `__init__` of an estimator sets parameters alone.
    _needs_targets: ClassVar[bool] = True
    _flow: StatefulLoop | None = None
    _model: dict[str, Any] | None = None
    _lock: threading.RLock | None = None

    def _first_model(self, features: Any, targets: Any, classes: Any) -> dict[str, Any]:
        """Return the model before the first instances."""
        raise NotImplementedError

    def _features(self, features: Any, model: dict[str, Any]) -> Any:
        """Return what instances store of features; may add labels to the model."""
        return as_form(features, sparse_form=model["sparse"])

    def _targets(self, targets: Any, model: dict[str, Any]) -> Any:
        """Return float64[n], what instances store of targets; may add classes to the model."""
        raise NotImplementedError

    def _count(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        """Set the size of the model, and what else all instances of the loop decide."""
        model["size"] = sum(flow.size())

    def _restart(self, model: dict[str, Any]) -> None:
        """Have the model be that of no instances."""
        raise NotImplementedError

    def _descend(self, flow: StatefulLoop, model: dict[str, Any], share: float) -> None:
        """Run one pass over the sample; `objective` of the model is then that of the sample."""
        raise NotImplementedError

    def _best(self, flow: StatefulLoop, model: dict[str, Any], tol: float) -> None:
        """Have the model be the best one of all instances of the loop."""
        raise NotImplementedError

    def _publish(self, model: dict[str, Any]) -> None:
        """Set the attributes that end with "_"."""
        raise NotImplementedError

    # Instances

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from these instances alone, exactly.

        Args:
            X: float64[n, d]: an array, a SciPy sparse matrix, an Arrow table, or a data frame of
                pandas or Polars.
            y: [n], the classes, or the numbers to predict.

        Returns:
            This learner.

        Raises:
            ValueError: features or targets that cannot be learnt from.
        """
        X, y = self._checked(X, y, reset=True)
        self._begin(X, y, None, "int", replace=True)
        with self._guard() as model:
            self._take_in(X, y, None)
            self._approximate(self.passes)
            self._best(self._open_flow, model, self.tol)
            self._store()
        return self

    def partial_fit(self, X: Any, y: Any = None, *, ids: Any = None, classes: Any = None) -> Self:
        """Add instances, and bring the approximate model nearer to the best one.

        Args:
            X: float64[n, d], as for `fit`.
            y: [n], the classes, or the numbers to predict.
            ids: [n], int or str, to withdraw instances by, or to replace them: an instance with the
                id of an earlier one takes its place. By default 0, 1, 2, ... in the order of arrival.
            classes: all that there will be; others are added as they arrive.

        Returns:
            This learner.

        Raises:
            ValueError: features or targets that cannot be learnt from.
            InputError: ids of another type or number.
            StateError, RunError: instances may have been added or not; call it again with the same
                ids.
        """
        first = self._model is None
        X, y = self._checked(X, y, reset=first)
        if ids is not None:
            ids = _checked_ids(ids, X.shape[0], None if first else self._model["ids"])
        if first:
            self._begin(X, y, classes, "int" if ids is None else _kind(ids))
        with self._guard():
            self._take_in(X, y, ids)
            self._approximate(self.passes)
            self._store()
        return self

    def forget(self, ids: Any) -> Receipt:
        """Withdraw instances, exactly as if they had never been seen.

        The approximate model is computed anew, from nothing, so that it has no trace of them.

        Args:
            ids: of the instances; those that have none are passed over.

        Returns:
            How many there were, and the version from which on no state depends on them. Older
            versions of the store are removed by `vertexsdk state gc`.

        Raises:
            InputError: ids of another type.
            StateError, RunError: instances may have been withdrawn or not; call it again.
        """
        with self._guard() as model:
            ids = _checked_ids(ids, None, model["ids"])
            flow = self._open_flow
            forgotten = sum(flow.remove.map(ids)) if len(ids) else 0
            if forgotten:
                model["version"] += 1
                self._restart(model)
                self._approximate(_STEADY)
                self._store()
                flow.snapshot()
            return Receipt(forgotten, flow.progress()["version"])

    def solve(self, *, tol: float | None = None) -> Self:
        """Return the best model of all instances of this instant.

        A branch is forked, begins with the approximate model, and ends when its objective is within
        the tolerance of the best one. Others may add and withdraw instances meanwhile. If nobody
        does, this learner goes on from that model.

        Args:
            tol: relative to the objective; by default the parameter of that name.

        Returns:
            A learner that has this model, and no instances.
        """
        with self._guard() as model:
            version = model["version"]
            branch = self._open_flow.fork()
            answer = dict(model)
        with branch:
            self._best(branch, answer, self.tol if tol is None else tol)
        solved = clone(self)
        solved._lock, solved._model = threading.RLock(), answer
        solved._publish(answer)
        with self._guard() as model:
            if model["version"] == version:
                model.update(answer)
                self._store()
        return solved

    def fork(self, name: str | None = None) -> Self:
        """Return a learner with the same instances, that changes nothing here: a what-if.

        Args:
            name: under which the store keeps it; by default it is deleted when it is closed.
        """
        with self._guard() as model:
            other = clone(self)
            other._hold(self._open_flow.fork(name), dict(model))
        return other

    def snapshot(self) -> None:
        """Write what has changed to the store, so that `resume` has less to repeat."""
        with self._guard():
            self._open_flow.snapshot()

    def close(self) -> None:
        """End the loop; the model stays. May be called twice."""
        flow, self._flow = self._flow, None
        if flow is not None:
            flow.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def resume(cls, *, backend: str, loop: str | None = None, **params: Any) -> Self:
        """Continue a learner from its store, with all its instances.

        Args:
            backend: URL of the store.
            loop: the name of the loop in the store; by default that of the class.
            params: parameters that are to be others from now on, as `partitions` or `spark`.

        Raises:
            StateInputError: the store has no such loop.
            InputError: it is not a loop of this class.
        """
        learner = cls(backend=backend, loop=loop)
        flow = _resumed(cls._programs, {
            "backend": backend, "loop": learner._name, "partitions": params.get("partitions"),
            "spark": params.get("spark"),
        })  # fmt: skip
        try:
            model = _loaded(flow.load())
            if model.get("learner") != cls.__name__:
                raise InputError(f"loop {learner._name!r} is not of a {cls.__name__}: give loop=")
            learner.set_params(**{**model["params"], **params})
            learner._hold(flow, model)
        except BaseException:
            flow.close()
            raise
        return learner

    # What the methods consist of

    @property
    def _name(self) -> str:
        return type(self).__name__ if self.loop is None else self.loop

    @property
    def _open_flow(self) -> StatefulLoop:
        assert self._flow is not None
        return self._flow

    @contextmanager
    def _guard(self) -> Iterator[dict[str, Any]]:
        """Hold the lock; the value is the model."""
        if self._model is None:
            raise NotFittedError(
                f"this {type(self).__name__} has no instances yet: call fit or partial_fit"
            )
        if self._flow is None or self._lock is None:
            raise InputError(
                f"this {type(self).__name__} has a model and no instances: it is what solve() "
                "returned, a copy, or closed; use the one that was given the instances, or resume()"
            )
        with self._lock:
            yield self._model

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        options = {
            "reset": reset, "accept_sparse": "csr", "dtype": np.float64, "order": "C",
            "accept_large_sparse": False,
        }  # fmt: skip
        X = as_matrix(X)
        if not self._needs_targets:
            return validate_data(self, X, **options), None
        return validate_data(self, X, y, **options)  # type: ignore[no-any-return]

    def _begin(self, X: Any, y: Any, classes: Any, kind: str, *, replace: bool = False) -> None:
        """Begin a loop without instances."""
        self.close()
        model = {
            "learner": type(self).__name__, "ids": kind, "next": 0, "version": 0,
            "size": 0, "width": X.shape[1], "sparse": bool(sparse.issparse(X)), "n_iter": 0,
            "objective": math.inf, **self._first_model(X, y, classes),
        }  # fmt: skip
        if y is not None:
            self._targets(y, model)  # before there is a loop, as they may be refused
        flow = StatefulLoop(
            self._programs[kind], loop=self._name, partitions=self.partitions, spark=self.spark,
            backend=self.backend or f"memory://{self._name}-{uuid.uuid4().hex}", replace=replace,
        )  # fmt: skip
        self._hold(flow, model)
        self._store()

    def _hold(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        """Have a loop and its model."""
        self._flow, self._model, self._lock = flow, model, threading.RLock()
        self._end = weakref.finalize(self, _close, flow)
        self._end.atexit = False
        self.n_features_in_ = model["width"]
        self._publish(model)

    def _take_in(self, X: Any, y: Any, ids: Any) -> None:
        """Add instances."""
        model = self._model
        assert model is not None
        if ids is None:
            if model["ids"] != "int":
                raise InputError("give ids: those of the earlier instances are str")
            ids = np.arange(model["next"], model["next"] + X.shape[0])
        known = dict(model)
        features = self._features(X, model)
        targets = np.zeros(X.shape[0]) if y is None else self._targets(y, model)
        if any(model[name] is not value for name, value in known.items()):
            self._store()  # what instances have the places of is there before they are
        if model["ids"] == "int" and len(ids):
            model["next"] = max(model["next"], int(ids.max()) + 1)
        model["version"] += 1
        self._open_flow.add.map(ids, targets, packed(features))

    def _approximate(self, passes: int) -> None:
        """Run passes over a sample, until they have no effect."""
        model, flow = self._model, self._open_flow
        assert model is not None
        self._count(flow, model)
        size = model["size"]
        share = min(1.0, self.sample / max(size, 1))
        for _ in range(passes if size else 0):
            before = model["objective"]
            self._descend(flow, model, share)
            if passes > self.passes and before - model["objective"] < 1e-3 * abs(before):
                break

    def _store(self) -> None:
        """Have the model in the store, and in the attributes."""
        model = self._model
        assert model is not None
        given = {"backend", "loop", "partitions", "spark"}
        model["params"] = {k: v for k, v in self.get_params().items() if k not in given}
        self._open_flow.store(_dumped(model))
        self._publish(model)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {k: v for k, v in state.items() if k not in ("_flow", "_lock", "_end")}


def _close(flow: StatefulLoop) -> None:
    with suppress(Exception):
        flow.close()


def _resumed(programs: Mapping[str, type[Stateful]], options: dict[str, Any]) -> StatefulLoop:
    """Return the loop of the program that it was begun with."""
    *others, last = programs.values()
    for program in others:
        with suppress(InputError):
            return StatefulLoop.resume(program, **options)
    return StatefulLoop.resume(last, **options)


def _dumped(model: dict[str, Any]) -> bytes:
    """Return a model as bytes: arrays, and the rest as JSON."""
    arrays = {k: v for k, v in model.items() if isinstance(v, np.ndarray)}
    rest = {k: v for k, v in model.items() if k not in arrays}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays, rest=np.array(json.dumps(rest, default=_plain)))
    return file.getvalue()


def _plain(value: Any) -> Any:
    """Return a parameter that JSON has no form of as one that it has."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def _loaded(data: bytes) -> dict[str, Any]:
    """Return the model that `_dumped` returned the bytes of."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        model: dict[str, Any] = json.loads(str(arrays["rest"]))
        return model | {name: arrays[name] for name in arrays.files if name != "rest"}


def _kind(ids: Any) -> str:
    return "int" if isinstance(ids, np.ndarray) else "str"


def _checked_ids(ids: Any, number: int | None, kind: str | None) -> Any:
    """Return ids as int64[n], or a list of str.

    Args:
        number: how many there have to be; None for any.
        kind: of the ids of earlier instances; None where there are none.
    """
    values = list(ids)
    if number is not None and len(values) != number:
        raise InputError(f"{number} instances need as many ids; there are {len(values)}")
    if all(isinstance(value, str) for value in values) and (values or kind == "str"):
        own: Any = values
    else:
        try:
            own = np.array([operator.index(value) for value in values], np.int64)
        except (TypeError, OverflowError):
            raise InputError("ids are all int, of 64 bits, or all str") from None
    if kind is not None and _kind(own) != kind and len(values):
        raise InputError(f"the ids of earlier instances are {kind}; give {kind}")
    return own
