"""A learner whose weights may be in blocks of its loop.

Without blocks the model has "weights", float64[rows, d + 1]. With blocks it has them only from an
exact solution until that is saved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vertexsdk import CallError, InputError, StatefulLoop, VertexError
from vertexsdk.algorithms.learning._features import rows_of
from vertexsdk.algorithms.learning._learner import Learner
from vertexsdk.algorithms.learning.blocks import (
    BlockReader,
    Layout,
    Overshoot,
    blocks_of,
    on_blocks,
)

from scipy import sparse  # isort: skip

Change = tuple[()] | tuple[int, int]


class BlockLearner(Learner):
    """A learner of rows of weights, which are in the model or in blocks."""

    blocks: int | None
    alpha: float
    fit_intercept: bool
    _loss: ClassVar[str]
    _reader: BlockReader | None = None  # of the weights that `coef_` has

    def _labels(self, model: dict[str, Any]) -> list[int]:
        """Return the class of each row of weights; -1 for numbers to predict."""
        raise NotImplementedError

    def _arranged(self, weights: NDArray[np.float64], model: dict[str, Any]) -> tuple[Any, Any]:
        """Return the coefficients and intercepts of rows of weights, as attributes have them."""
        raise NotImplementedError

    def _bound(self, objective: float) -> float:
        """Return the objective above which a pass is not taken."""
        raise NotImplementedError

    def _first_blocks(self, model: dict[str, Any]) -> dict[str, Any]:
        """Return a model that begins, without its weights where these are in blocks."""
        if self.blocks is not None:
            if not (isinstance(self.blocks, int) and self.blocks > 0):
                raise InputError(f"blocks={self.blocks}: give the number of weights in a block")
            del model["weights"]
        return {**model, "blocks": self.blocks, "pending": []}

    def _layout(self, model: dict[str, Any]) -> Layout:
        return Layout(model["width"], model["blocks"])

    def _reset(self, flow: StatefulLoop, model: dict[str, Any], rows: int) -> None:
        """Have so many rows of weights, all zeros."""
        model["pending"] = []
        if model["blocks"] is None:
            model["weights"] = np.zeros((rows, model["width"] + 1))
        else:
            flow.clear_blocks()

    def _hold(self, flow: StatefulLoop, model: dict[str, Any], store: Any) -> None:
        if model["blocks"] != self.blocks:
            raise InputError(
                f"loop {self._name!r} was begun with blocks={model['blocks']}, which cannot be "
                f"changed: give that, and not blocks={self.blocks}"
            )
        super()._hold(flow, model, store)

    def _save(self) -> None:
        model = self._model
        assert model is not None
        if model["blocks"] is not None:
            self._settle(self._open_flow, model)
        super()._save()

    def _settle(self, flow: StatefulLoop, model: dict[str, Any]) -> None:
        """Have the blocks be those of an exact solution, and of classes that have arrived."""
        layout = self._layout(model)
        if "weights" in model:
            ends = np.append(np.arange(layout.size, layout.width, layout.size), layout.width)
            rows = {
                layout.key(label, block): row.tobytes()
                for label, w in zip(self._labels(model), model["weights"], strict=True)
                for block, row in enumerate(np.split(w, ends))
                if row.any()
            }
            flow.clear_blocks()
            flow.set_block.map(list(rows), list(rows.values()))
            del model["weights"]
        for change in model["pending"]:
            if change:
                flow.negate_blocks(*change, layout.blocks)
            else:
                flow.clear_blocks()
        model["pending"] = []

    def _descend_blocks(
        self, flow: StatefulLoop, model: dict[str, Any], share: float
    ) -> tuple[float, float | None]:
        """Run a pass whose weights stay in their blocks.

        Returns:
            The objective before it, and after it; None where it is above the bound, and the model
            is what it was.
        """
        self._settle(flow, model)
        self._read_anew(model)
        labels = np.array(self._labels(model), np.int64).tobytes()
        form = (
            model["width"], model["sparse"], share, model["blocks"], labels, self._loss, self.alpha,
        )  # fmt: skip
        earlier = model["objective"]
        if not math.isfinite(earlier):
            earlier = flow.measure_blocks(*form)
        try:
            objective = flow.descend_blocks(
                *form, model["rate"], self.fit_intercept, self._bound(earlier)
            )
        except CallError as error:
            if Overshoot.__name__ not in str(error):
                raise
            return earlier, None
        return earlier, objective

    # What is read

    def _all_weights(self, flow: StatefulLoop, model: dict[str, Any]) -> NDArray[np.float64]:
        """Return the weights of a model, float64[rows, d + 1]."""
        if model["blocks"] is None or "weights" in model:
            weights: NDArray[np.float64] = model["weights"]
            return weights
        return self._read_all(BlockReader(flow, self._layout(model)), model)

    def _read_all(self, reader: BlockReader, model: dict[str, Any]) -> NDArray[np.float64]:
        blocks = range(self._layout(model).blocks)
        return np.array([reader.weights(label, blocks) for label in self._labels(model)])

    def _publish(self, model: dict[str, Any]) -> None:
        self.n_iter_, self.objective_ = max(model["n_iter"], 1), model["objective"]
        self._read_anew(model)
        if "weights" in model:
            self.coef_, self.intercept_ = self._arranged(model["weights"], model)

    def _read_anew(self, model: dict[str, Any]) -> None:
        """Have attributes read the weights that the loop has from now on."""
        for name in ("coef_", "intercept_"):
            self.__dict__.pop(name, None)
        in_blocks = "weights" not in model
        self._reader = BlockReader(self._flow, self._layout(model)) if in_blocks else None

    @cached_property
    def coef_(self) -> Any:
        """The coefficients, which are read from the blocks."""
        with self._reading("coef_") as (model, reader):
            return self._arranged(self._read_all(reader, model), model)[0]

    @cached_property
    def intercept_(self) -> Any:
        """The intercepts, which are read from the blocks."""
        with self._reading("intercept_") as (model, reader):
            last = [self._layout(model).blocks - 1]
            rows = [reader.weights(label, last) for label in self._labels(model)]
            return self._arranged(np.array(rows), model)[1]

    @contextmanager
    def _reading(self, name: str) -> Iterator[tuple[dict[str, Any], BlockReader]]:
        """Hold the lock, for an attribute; the value is the model, and the reader of its blocks."""
        with self._lock:
            if self._model is None or self._reader is None:
                raise AttributeError(
                    f"this {type(self).__name__} has no {name} yet: call fit or partial_fit"
                )
            yield self._model, self._reader

    def _scores_of_blocks(self, X: Any) -> Any:
        """Return the scores of sparse rows, by the blocks that these touch; None without blocks."""
        if self._reader is None or not sparse.issparse(X):
            return None
        with self._reading("coef_") as (model, reader):
            layout, rows = self._layout(model), rows_of(X)
            blocks = blocks_of(rows, layout.size)
            compact: Any = on_blocks(rows, blocks, layout)
            needed = [*blocks.tolist(), layout.blocks - 1]
            weights = [reader.weights(label, needed) for label in self._labels(model)]
            coefficients, intercepts = self._arranged(np.array(weights), model)
        shape = X.shape[0], compact.dimension
        matrix = sparse.csr_array((compact.values, compact.indices, compact.indptr), shape=shape)
        return matrix @ coefficients.T + intercepts

    def close(self) -> None:
        """End the loop; the model stays. May be called twice."""
        if self._flow is not None and self._reader is not None:
            with suppress(VertexError), self._lock:
                self._reader.detach()
        super().close()


def changes_of_blocks(classes: NDArray[Any], codes: NDArray[np.int64], new: int) -> list[Change]:
    """Return what becomes of the blocks where some of the classes, the last ones, are new.

    Args:
        classes, codes: all of them.
        new: how many are new.

    Returns:
        () to clear the blocks; or the codes of two classes, of which one was against the other: the
        second gets the weights of the first with the other sign.
    """
    known = len(classes) - new
    if len(classes) <= 2 or known < 2:
        return [()]
    larger = int(classes[1] > classes[0])
    return [(int(codes[larger]), int(codes[1 - larger]))] if known == 2 else []
