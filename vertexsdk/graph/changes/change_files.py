"""Change files as a source: batches of changes, each with the byte of its file where it ends.

They are followed as `FollowedFiles` says.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.graph.changes._block import (
    ParsedBlock,
    change_layout,
    parse_block,
    parse_csv_block,
)
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.load._csv import CsvLayout, check_encoding, is_csv
from vertexsdk.graph.load.followed_files import FollowedFile, FollowedFiles

_BLOCK = 4 << 20  # bytes read at a time


class ChangeFiles(FollowedFiles[ChangeBatch]):
    """The changes of files, directories and globs, to be iterated over once.

    Args:
        paths: of this machine.
        form: how lines are to be read.
        at_once: most changes in a batch.
        options: of `FollowedFiles`.

    Raises:
        InputError: no such file; or, while iterating, one that became shorter or went away.

    Example:
        >>> source = ChangeFiles(["changes/"], LineFormat(integers=True))  # doctest: +SKIP
        >>> for batch in source:  # doctest: +SKIP
        ...     main.ingest(batch.changes, source=batch.source, offset=batch.offset)
    """

    kind = "change file"

    def __init__(
        self, paths: Sequence[str], form: LineFormat, *, at_once: int = 1 << 18, **options: Any
    ) -> None:
        super().__init__(paths, **options)
        self.form, self.at_once = form, at_once
        self._layouts: dict[str, CsvLayout] = {}
        self._clock = -np.inf

    def read(self, file: FollowedFile, ending: bool) -> Iterator[ChangeBatch]:
        """Yield the changes of a file from its offset on, at most `at_once` a batch."""
        while True:
            data, size = file.lines(ending, _BLOCK)
            if not size:
                return
            begin = file.offset
            if is_csv(file.path):
                layout = self._layouts.get(file.path)
                if layout is None:
                    layout = change_layout(file.head(), file.path, self.form)
                    self._layouts[file.path] = layout
                mark = min(max(layout.begin - begin, 0), len(data))
                file.advance(0, len(data[:mark].splitlines()))
                block = parse_csv_block(data[mark:], file.path, file.line, self.form, layout)
            else:
                mark = 3 if begin == 0 and data.startswith(codecs.BOM_UTF8) else 0
                if begin == 0:
                    check_encoding(data[:64], file.path)
                block = parse_block(data[mark:], file.path, file.line, self.form)
            file.advance(size, block.lines)
            yield from self._batches(file, block, begin + mark, len(data))

    def _batches(
        self, one: FollowedFile, block: ParsedBlock, begin: int, size: int
    ) -> Iterator[ChangeBatch]:
        rest = ChangeBatch(
            block.changes, one.source, one.offset, begin + block.stop, block.bad,
            self._late(block.time), 4 * size + 64,
        )  # fmt: skip
        while len(rest) > self.at_once:
            first, rest = rest.cut(self.at_once)
            yield first
        yield rest

    def _late(self, time: NDArray[np.float64]) -> NDArray[np.int64]:
        if not len(time):
            return np.empty(0, np.int64)
        newest = np.maximum.accumulate(np.concatenate([[self._clock], time]))
        self._clock = newest[-1]
        return np.flatnonzero(time < newest[:-1])
