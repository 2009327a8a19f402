"""What the systems for changing graphs are given: files, the same for each, and right answers.

Steps are what our own cases take from the same stream, so that all are asked at the same instants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import edge_text, reference
from benchmarks.answers import EPSILON, compact
from benchmarks.evolving.sizes import Sizes
from benchmarks.evolving.stream import REMOVE, Batch, Block, Source

IntArray = npt.NDArray[np.int64]
_MOST_ITERATIONS = 100


@dataclass(frozen=True, slots=True)
class Step:
    """Changes that arrive before one query, in so many batches; ``name``: of its figures, empty
    where it is not counted; ``keep``: the answer is to be checked."""

    count: int
    batches: int = 1
    name: str = ""
    keep: bool = False


def queries(sizes: Sizes) -> list[Step]:
    """As `evolving.cases.queries`: a query after every so many changes."""
    counted = range(sizes.warm, sizes.warm + sizes.queries)
    first = [Step(sizes.changes) for _ in range(sizes.warm)]
    return first + [Step(sizes.changes, 1, "query", k == sizes.warm) for k in counted]


def shares(sizes: Sizes, edges: int) -> list[Step]:
    """As `evolving.arriving.arriving`, one round: a query after each share of the edges."""
    counts = [(share, int(share * edges)) for share in sizes.shares]
    pieces = sizes.pieces(edges)
    return [
        Step(sizes.changes),
        *(Step(c, max(1, -(-c // pieces)), f"{share:g}", True) for share, c in counts),
    ]


class Plan:
    """The files in ``folder`` (``base``, ``changes``, ``batches``) for steps of a stream.

    ``start``: the batch after which the clock of a case runs; never where shares arrive.
    """

    def __init__(self, stream: Source, steps: list[Step], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.origin, self._base = stream.origin, stream.columns()
        self.steps, self._taken, self.last = [], [], []
        lines = ["0 1\n"]
        for step in steps:
            taken = stream.take(step.count)
            if not len(taken):
                break
            self.steps.append(step)
            cuts = [len(taken) * k // step.batches for k in range(step.batches + 1)]
            self._taken += [taken[a:b] for a, b in pairwise(cuts)]
            lines += [f"{b - a} 0\n" for a, b in pairwise(cuts)]
            lines[-1] = lines[-1].replace(" 0", f" {int(step.keep)}")
            self.last.append(len(lines) - 1)
        self.base, self.changes, self.batches = (
            str(folder / name) for name in ("base", "changes", "batches")
        )
        Path(self.base).write_bytes(edge_text.lines(*self._base))
        with Path(self.changes).open("w") as file:
            for batch in self._taken:
                file.write(_lines(batch))
        Path(self.batches).write_text("".join(lines))
        counted = [at for at, s in zip(self.last, self.steps, strict=True) if s.name == "query"]
        self.start = counted[0] if counted else len(lines)

    def after(self, batch: int) -> Block:
        """The edges after so many batches: for each pair of ends the last line counts."""
        kinds = [np.zeros(self._base[0].size, np.uint8), *(b.kind for b in self._taken[:batch])]
        columns = [
            np.concatenate([first, *(getattr(b, name) for b in self._taken[:batch])])
            for name, first in zip(("source", "target", "value"), self._base, strict=True)
        ]
        key = columns[0] << 32 | columns[1]  # ids are below 2**32
        order = np.argsort(key, kind="stable")
        last = np.ones(key.size, bool)
        last[:-1] = np.diff(key[order]) != 0
        kept = order[last]
        kept = kept[np.concatenate(kinds)[kept] != REMOVE]
        source, target, value = (column[kept] for column in columns)
        return source, target, value

    @cached_property
    def _first(self) -> tuple[IntArray, IntArray, int]:
        ids, source, target = compact(self._base[0], self._base[1], [])
        return source, target, ids.size

    def iterations(self, surfers: int) -> int:
        """Of PageRank in whole surfers, until one changes the ranks by `EPSILON` in all (L1), on
        the edges at first."""
        source, target, n = self._first
        before, done = reference.surfers(source, target, n, surfers, 0), 0
        degree = np.maximum(1, np.bincount(source, minlength=n))
        while done < _MOST_ITERATIONS:
            now = reference.surfers_step(source, target, degree, before, surfers)
            done += 1
            if np.abs(now - before).sum() <= EPSILON * now.sum():
                break
            before = now
        return done


def _lines(batch: Batch) -> str:
    columns = (c.tolist() for c in (batch.kind, batch.source, batch.target, batch.value))
    return "".join(
        f"- {source} {target}\n" if kind == REMOVE else f"+ {source} {target} {value}\n"
        for kind, source, target, value in zip(*columns, strict=True)
    )
