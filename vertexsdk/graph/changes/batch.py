"""A batch of a source: its changes, and the position of the source after them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.line import BadLines


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes in order, of one file and the byte where their lines end, or of a stream.

    Attributes:
        changes: perhaps none.
        source: the file's absolute path, or the stream's name.
        offset: the byte of the file after the batch, or the batch's number.
        stop: int64[k], the byte after each change's line.
        bad: lines that are not changes.
        late: int64, positions of changes whose time is before that of an earlier one.
        bytes: estimated memory.
    """

    changes: Changes
    source: str
    offset: int
    stop: NDArray[np.int64]
    bad: BadLines = field(default_factory=BadLines)
    late: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    bytes: int = 0

    def __len__(self) -> int:
        return len(self.changes)

    def cut(self, count: int) -> tuple[ChangeBatch, ChangeBatch]:
        """The first `count` changes, and the rest; 0 < count < len."""
        parts = []
        for begin, end in ((0, count), (count, len(self))):
            last = end == len(self)
            bad = self.bad.between(begin, None if last else end)
            late = self.late[(self.late >= begin) & (self.late < end)] - begin
            parts.append(
                ChangeBatch(
                    self.changes[begin:end], self.source,
                    self.offset if last else int(self.stop[end - 1]), self.stop[begin:end],
                    bad, late, self.bytes * (end - begin) // len(self),
                )
            )  # fmt: skip
        return parts[0], parts[1]
