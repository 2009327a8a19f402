"""The log of what methods do beyond their own row: messages by id, targets added and removed.

Kernels write into fixed arrays. Past their end they only count; the caller then grows the arrays,
and the kernel repeats the vertex that did not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.program.algebra import Algebra

EMIT, ADD, REMOVE, ADD_BARE = 0, 1, 2, 3  # the last, of kernels, is ADD without a value
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One action of a vertex on the vertex with id `target`.

    Attributes:
        what: EMIT, ADD or REMOVE.
        vertex: the local vertex that acts.
        target: an id.
        message: the message of EMIT.
        value: the value of the edge that ADD adds; None for none.
    """

    what: int
    vertex: int
    target: int
    message: Any = None
    value: Any = None


class MutationLog:
    """The actions of one phase, in the order of the vertices.

    Args:
        algebra: algebra of the messages; None at the events level.
        value_dtype: dtype of edge values; None where they are not read.
    """

    def __init__(self, algebra: Algebra | None, value_dtype: str | None) -> None:
        size = () if algebra is None or algebra.size is None else (algebra.size,)
        dtype = np.dtype(np.float64) if algebra is None else algebra.dtype
        capacity = 64
        self.what: Array = np.empty(capacity, np.int8)
        self.vertex: Array = np.empty(capacity, np.int32)
        self.target: Array = np.empty(capacity, np.int64)
        self.message: Array = np.empty((capacity, *size), dtype)
        self.value: Array = np.empty(capacity, "int64" if value_dtype == "int64" else "float64")
        self.count: Array = np.zeros(1, np.int64)
        self.extra: list[LogEntry] = []

    def arrays(self) -> tuple[Array, ...]:
        """The arguments `LOG_ARGS` of a kernel."""
        return self.what, self.vertex, self.target, self.message, self.value, self.count

    def grow(self) -> None:
        """Double the capacity, keeping what is there."""
        for name in ("what", "vertex", "target", "message", "value"):
            old = getattr(self, name)
            new = np.empty((2 * len(old), *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def add(self, entry: LogEntry) -> None:
        """Append an action of an interpreted method."""
        self.extra.append(entry)

    def __bool__(self) -> bool:
        return bool(self.count[0]) or bool(self.extra)

    def entries(self) -> list[LogEntry]:
        """Return all actions, in order."""
        n = int(self.count[0])
        vector = self.message.ndim > 1
        messages = [m.copy() for m in self.message[:n]] if vector else self.message[:n].tolist()
        return [
            *(
                LogEntry(ADD, v, t) if w == ADD_BARE else LogEntry(w, v, t, m, x)
                for w, v, t, m, x in zip(
                    self.what[:n].tolist(), self.vertex[:n].tolist(), self.target[:n].tolist(),
                    messages, self.value[:n].tolist(), strict=True,
                )
            ),
            *self.extra,
        ]  # fmt: skip
