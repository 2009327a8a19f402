"""The base of all learners: instances in a stateful class, a main loop, and branches."""

from __future__ import annotations

import io
import json
import math
import operator
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from vertexsdk import InputError, Stateful, StatefulLoop
from vertexsdk.algorithms.learning._features import as_form, as_matrix, packed
from vertexsdk.state import open_store
from vertexsdk.state.contract import CanBeDiscarded

try:
    from scipy import sparse
    from sklearn.base import BaseEstimator, clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils._param_validation import Interval, InvalidParameterError
    from sklearn.utils.validation import validate_data
except ImportError as error:
    raise ImportError(
        "vertexsdk.algorithms.learning needs scikit-learn: pip install 'vertexsdk[learning]'"
    ) from error

_COUNT = Interval(Integral, 1, None, closed="left")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
_STEADY = 10  # passes at most, after which a model that began anew is near the best one


class Receipt(NamedTuple):
    """The result of `forget`.

    Attributes:
        forgotten: the number of instances that were withdrawn.
        version: the version of the loop from which on no state depends on them, neither the
            instances nor the model.
    """

    forgotten: int
    version: int


class _OwnStore:
    """A store in memory that is deleted when no learner, fork or branch has this any more."""

    def __init__(self, name: str) -> None:
        self.url = f"memory://{name}-{uuid.uuid4().hex}"
        backend = open_store(self.url).backend
        assert isinstance(backend, CanBeDiscarded)
        weakref.finalize(self, backend.discard).atexit = False  # at the end all of them are


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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "passes": [Interval(Integral, 0, None, closed="left")],
        "sample": [_COUNT],
        "tol": [NOT_NEGATIVE],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "loop": [str, None],
        "backend": [str, None],
    }

    # `__init__` of an estimator sets parameters alone.
    _needs_targets: ClassVar[bool] = True
    _flow: StatefulLoop | None = None
    _model: dict[str, Any] | None = None
    _temporary_store: _OwnStore | None = None

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

    def _restart(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        """Have the model be the first one again, with no trace of instances that are gone."""
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
        with self._lock:
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
                id of an earlier one takes its place. By default they are numbered in the order of
                arrival: 0, 1, 2, ...
            classes: in the first call, those that there will be, and stay without instances;
                others are added as they arrive.

        Returns:
            This learner.

        Raises:
            ValueError: features or targets that cannot be learnt from.
            InputError: ids of another type or number.
            StateError, RunError: instances may have been added or not; call it again with the same
                ids.
        """
        with self._lock:
            known = self._model
            X, y = self._checked(X, y, reset=known is None)
            if ids is not None:
                ids = _checked_ids(ids, X.shape[0], None if known is None else known["ids"])
            if known is None:
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
            ids: several ids, int or str; those without an instance are ignored.

        Returns:
            How many there were, and the version from which on no state depends on them. Older
            versions of the store are removed by `vertexsdk state gc`.

        Raises:
            InputError: ids of another type.
            StateError, RunError: instances may have been withdrawn or not; call it again.
        """
        with self._guard() as model:
            ids = _checked_ids(ids, None, model["ids"])
            flow, traces = self._open_flow, model["traces"]
            if len(ids) and not traces:
                model["traces"] = True  # if this call ends early, it is known to the next one
                self._save()
            forgotten = sum(flow.remove.map(ids)) if len(ids) else 0
            if forgotten or traces:
                model["version"] += 1
                self._restart(flow, model)
                self._approximate(_STEADY)
                model["traces"] = False
                self._store()
                flow.snapshot()
            model["traces"] = False
            return Receipt(forgotten, flow.progress()["version"])

    def solve(self, *, tol: float | None = None) -> Self:
        """Return the best model of all instances of this instant.

        A branch is forked, begins with the approximate model, and ends when its objective is within
        the tolerance of the best one. Other threads may add and withdraw instances meanwhile. If
        none does, this learner continues from that model.

        Args:
            tol: relative to the objective; by default the parameter of that name.

        Returns:
            A learner that has this model, and no instances.
        """
        with self._guard() as model:
            version, store = model["version"], self._temporary_store
            branch = self._open_flow.fork()
            answer = dict(model)
        with branch:
            self._best(branch, answer, self.tol if tol is None else tol)
        del store  # until here, as others may close this learner
        solved: Self = clone(self)
        solved._model = answer
        solved._publish(answer)
        with self._lock:
            if self._flow is not None and self._model is model and model["version"] == version:
                model.update(answer)
                self._store()
        return solved

    def fork(self, name: str | None = None) -> Self:
        """Return a learner with the same instances, that changes nothing here: a what-if.

        Args:
            name: under which the store keeps it; by default it is deleted when it is closed.
        """
        with self._guard() as model:
            other: Self = clone(self)
            other._hold(self._open_flow.fork(name), dict(model), self._temporary_store)
        return other

    def snapshot(self) -> None:
        """Write what has changed to the store, so that `resume` has less to repeat."""
        with self._guard():
            self._open_flow.snapshot()

    def close(self) -> None:
        """End the loop; the model stays. May be called twice.

        Without `backend=` the instances are gone then, and their memory is free.
        """
        with self._lock:
            flow, self._flow = self._flow, None
            if flow is not None:
                self._end.detach()
                flow.close()
            self._temporary_store = None

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
            params: parameters to change, such as `partitions`, `spark` or `alpha`.

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
            stored = flow.load()
            if not stored:
                raise InputError(
                    f"loop {learner._name!r} has no instances yet: begin with "
                    f"{cls.__name__}(backend=...).partial_fit(...)"
                )
            model = _loaded(stored)
            if model.get("learner") != cls.__name__:
                raise InputError(f"loop {learner._name!r} is not of a {cls.__name__}: give loop=")
            learner.set_params(**{**model["params"], **params})
            learner._hold(flow, model, None)
        except BaseException:
            flow.close()
            raise
        return learner

    # What the methods consist of

    @property
    def _name(self) -> str:
        return type(self).__name__ if self.loop is None else self.loop

    @property
    def _lock(self) -> threading.RLock:
        lock: threading.RLock = self.__dict__.setdefault("_the_lock", threading.RLock())
        return lock

    @property
    def _open_flow(self) -> StatefulLoop:
        if self._flow is None:
            raise AttributeError("this learner has no loop")  # not there, for hasattr()
        return self._flow

    @contextmanager
    def _guard(self) -> Iterator[dict[str, Any]]:
        """Hold the lock; the value is the model."""
        if self._model is None:
            raise NotFittedError(
                f"this {type(self).__name__} has no instances yet: call fit or partial_fit"
            )
        with self._lock:
            if self._flow is None:
                raise InputError(
                    f"this {type(self).__name__} has a model and no instances: it is what solve() "
                    "returned, a copy, or closed; use the one that was given the instances, or "
                    "resume()"
                )
            yield self._model

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        options = {
            "reset": reset, "accept_sparse": "csr", "dtype": np.float64, "order": "C",
        }  # fmt: skip
        try:
            self._validate_params()
        except InvalidParameterError as error:
            raise InputError(str(error)) from None
        given = (as_matrix(X), y) if self._needs_targets else (as_matrix(X),)
        checked = validate_data(self, *given, **options)
        X, y = checked if self._needs_targets else (checked, None)
        values = X.data if sparse.issparse(X) else X.ravel()
        with np.errstate(over="ignore"):
            if not math.isfinite(values @ values):
                raise InputError("features are too large for their squares: scale them")
        return X, y

    def _begin(self, X: Any, y: Any, classes: Any, kind: str, *, replace: bool = False) -> None:
        """Begin a loop without instances."""
        model = {
            "learner": type(self).__name__, "ids": kind, "next": 0, "version": 0,
            "size": 0, "width": X.shape[1], "sparse": bool(sparse.issparse(X)), "n_iter": 0,
            "objective": math.inf, "traces": False, **self._first_model(X, y, classes),
        }  # fmt: skip
        if y is not None:
            self._targets(y, model)  # before there is a loop, as they may be refused
        self.close()
        store = None if self.backend else _OwnStore(type(self).__name__)
        flow = StatefulLoop(
            self._programs[kind], loop=self._name, partitions=self.partitions, spark=self.spark,
            backend=self.backend if store is None else store.url, replace=replace,
        )  # fmt: skip
        self._hold(flow, model, store)
        self._save()

    def _hold(self, flow: StatefulLoop, model: dict[str, Any], store: _OwnStore | None) -> None:
        """Have a loop and its model."""
        self._flow, self._model, self._temporary_store = flow, model, store
        self._end = weakref.finalize(self, _close, flow)
        self._end.atexit = False
        self.n_features_in_ = model["width"]
        self._publish(model)

    def _take_in(self, X: Any, y: Any, ids: Any) -> None:
        """Add instances."""
        model = self._model
        assert model is not None
        known, following = dict(model), model["next"]
        if ids is None:
            if model["ids"] != "int":
                raise InputError("give ids: those of the earlier instances are str")
            following += X.shape[0]
            if following >= 2**63:
                raise InputError(f"give ids: those after {model['next'] - 1} have over 64 bits")
            ids = np.arange(model["next"], following)  # the same again if this call fails
        elif model["ids"] == "int":
            model["next"] = following = max(following, int(ids.max()) + 1)
        features = self._features(X, model)
        targets = np.zeros(X.shape[0]) if y is None else self._targets(y, model)
        if any(model[name] is not value for name, value in known.items()):
            self._save()  # before instances that need it
        model["version"] += 1
        self._open_flow.add.map(ids, targets, packed(features))
        model["next"] = following

    def _approximate(self, passes: int) -> None:
        """Run passes over a sample, until they have no effect."""
        model, flow = self._model, self._open_flow
        assert model is not None
        self._count(flow, model)
        size = model["size"]
        share = min(1.0, self.sample / max(size, 1))
        if passes and size:
            model["objective"] = math.inf  # that is of other instances
        for _ in range(passes if size else 0):
            objective = model["objective"]
            self._descend(flow, model, share)
            if passes > self.passes and objective - model["objective"] < 1e-3 * abs(objective):
                break

    def _store(self) -> None:
        """Have the model in the store, and in the attributes."""
        self._save()
        assert self._model is not None
        self._publish(self._model)

    def _save(self) -> None:
        """Have the model in the store."""
        model = self._model
        assert model is not None
        given = {"backend", "loop", "partitions", "spark"}
        model["params"] = {k: v for k, v in self.get_params().items() if k not in given}
        self._open_flow.store(_dumped(model))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_clone__(self) -> Self:
        """Return one with these parameters; a Spark session is not copied."""
        params = {k: v for k, v in self.get_params(deep=False).items() if k != "spark"}
        cloned = {k: clone(v, safe=False) for k, v in params.items()}
        return type(self)(**cloned, spark=self.spark)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        state = state | ({"spark": None} if "spark" in state else {})  # which no process can get
        left_out = ("_flow", "_the_lock", "_end", "_temporary_store")
        return {k: v for k, v in state.items() if k not in left_out}


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
        kind: the kind of the ids of earlier instances; None without any.
    """
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InputError(f"ids is {ids!r}: give several, as [{ids!r}]")
    values: Any = np.array(ids) if isinstance(ids, range | np.ndarray) else ids
    if not (isinstance(values, np.ndarray) and values.dtype == np.int64 and values.ndim == 1):
        values = ids.to_pylist() if isinstance(ids, pa.Array | pa.ChunkedArray) else list(ids)
    if number is not None and len(values) != number:
        raise InputError(f"{number} instances need as many ids; there are {len(values)}")
    if isinstance(values, np.ndarray):
        checked: Any = values
    elif all(isinstance(value, str) for value in values) and (values or kind == "str"):
        checked = values
        try:
            "".join(values).encode()
        except UnicodeEncodeError:
            raise InputError("ids have halves of characters (surrogates): give others") from None
    else:
        try:
            checked = np.array([operator.index(value) for value in values], np.int64)
        except (TypeError, OverflowError):
            raise InputError("ids are all int, of 64 bits, or all str") from None
    if kind is not None and _kind(checked) != kind and len(values):
        raise InputError(f"the ids of earlier instances are {kind}; give {kind}")
    return checked
