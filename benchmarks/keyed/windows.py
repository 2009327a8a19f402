"""Lines of words in windows of wall-clock time: how many a system keeps up with."""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator
from typing import Any

import numpy as np

from benchmarks.case_process import CaseProcess

WORDS_OF_A_LINE = 10
_FULL = 0.8  # of a window, which one that is tried must not take longer than
_TRIES = 5  # windows of each size that is tried
_BACKOFF = 0.75
_LATE = 0.05  # of the windows may end after the next one
_MOST = 1 << 16  # lines of a window


class Text:
    """Lines, one after the other, again and again."""

    vocabulary = np.array([f"word{number}" for number in range(10_000)])

    def __init__(self) -> None:
        ranks = np.random.default_rng(1).zipf(1.2, (_MOST, WORDS_OF_A_LINE)) - 1
        self._words = ranks % len(self.vocabulary)
        self._lines = np.array([" ".join(row) for row in self.vocabulary[self._words]], object)
        self._at = 0
        self.counts = np.zeros(len(self.vocabulary), np.int64)

    def take(self, count: int) -> tuple[list[str], Any]:
        """Return the next lines, and the words in them, each once."""
        places = np.arange(self._at, self._at + count) % _MOST
        self._at += count
        words, times = np.unique(self._words[places], return_counts=True)
        self.counts[words] += times
        return self._lines[places].tolist(), self.vocabulary[words]

    def expected(self) -> dict[str, int]:
        """The count of each word that was taken."""
        there = np.flatnonzero(self.counts)
        return dict(zip(self.vocabulary[there].tolist(), self.counts[there].tolist(), strict=True))


def sustained(
    process: CaseProcess, milliseconds: int, seconds: float
) -> Generator[int, float, None]:
    """Yield how many lines the next window has, and receive the seconds until they were counted.

    More and more lines are tried, until they take most of a window. Then windows of so many lines
    come at their times, for some seconds; where too many of them end late, the same with fewer
    lines. Notes words per second: 0 where no number of lines is kept up with.
    """
    window, lines = milliseconds / 1000, 1
    for factor in (2.0, 1.2):
        while lines < _MOST:
            more, took = max(lines + 1, int(lines * factor)), []
            for _ in range(_TRIES):
                took.append((yield more))
            if statistics.median(took) > _FULL * window:
                break
            lines = more
    while lines:
        count, late = max(1, round(seconds / window)), 0
        began = time.perf_counter()
        for number in range(1, count + 1):
            time.sleep(max(0.0, began + number * window - time.perf_counter()))
            yield lines
            late += time.perf_counter() > began + (number + 1) * window
        if late <= _LATE * count:
            break
        lines = int(lines * _BACKOFF)
    process.note(f"{milliseconds} ms", lines * WORDS_OF_A_LINE / window)
