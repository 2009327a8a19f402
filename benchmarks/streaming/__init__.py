"""Systems that keep an answer up while a graph changes: one file each behind one small interface.

To add one: write ``benchmarks/streaming/NAME.py`` with a subclass of `Streamer`, and a line in
`SYSTEMS`. What it runs is a program of its own, in any language, which is given words
``name=value`` (see `words`):

``program``: shortest_paths, components or pagerank. ``base``: a file of edges, lines
``source target value``. ``changes``: a file of changes, lines ``+ source target value``, which adds
an edge or sets its value, and ``- source target``, which removes one; there are no parallel edges.
``batches``: lines ``count keep``, the first for the edges of ``base`` themselves (batch 0), each
further one for so many changes. ``origin``: where paths begin. ``iterations``: of PageRank.
``workers``: threads to use. ``out``: a folder. ``start``, ``seconds``: ``seconds`` after batch
``start`` is answered no further batch is begun.

It prints a line of JSON for every batch, ``{"batch": 3, "seconds": 0.25}``: from when the first
change of the batch is handed to the system until the answer for all of them is there. Reading and
parsing the files is not part of it, nor is writing answers. After each batch whose ``keep`` is 1,
and after the last one done, it writes the whole answer to ``out/answer-BATCH.txt`` (or to several,
``answer-BATCH-PART.txt``), lines ``vertex value``, and prints ``{"kept": 3}``.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

SYSTEMS: dict[str, str] = {
    "dataflow": "benchmarks.streaming.dataflow:Dataflow",
    "pathway": "benchmarks.streaming.pathway:Pathway",
}


@dataclass(frozen=True, slots=True)
class Job:
    """What the program of a system is to do: the words described above."""

    program: str
    base: str
    changes: str
    batches: str
    out: str
    origin: int
    iterations: int
    workers: int
    start: int
    seconds: float


class Streamer(ABC):
    """A system for changing graphs.

    ``surfers``: how many each vertex is given in every iteration of PageRank, where the system
    counts whole surfers (`benchmarks.reference.surfers`), as all that are here do.
    ``scales``: of R-MAT, tried in this order until one does not finish.
    """

    title: ClassVar[str]
    about: ClassVar[str]
    """How it is run and what its answers mean, for the notes."""
    programs: ClassVar[tuple[str, ...]] = ("shortest_paths", "components", "pagerank")
    surfers: ClassVar[int]
    scales: ClassVar[tuple[int, ...]]

    @abstractmethod
    def start(self, cache: Path) -> dict[str, str]:
        """Untimed: find or build the program. Returns versions by name.

        Raises:
            benchmarks.peers.Unavailable: it cannot be had here; says why, and how to have it.
        """

    @abstractmethod
    def command(self, job: Job) -> list[str]:
        """What to run, a program and its arguments."""

    def environment(self, job: Job) -> dict[str, str]:
        """Variables that the program needs besides those there are."""
        return {}


def words(job: Job) -> list[str]:
    """The job as arguments ``name=value``."""
    return [f"{name}={getattr(job, name)}" for name in Job.__slots__]


def said(text: str) -> str:
    """What a program complained of, for a table: not long, and without folders and addresses."""
    return re.sub(r"(\w+:/)?/[^\s\"'`]*/", "", " ".join(text.split()))[:200]


def streamer(name: str) -> Streamer:
    """A system by its name in `SYSTEMS`."""
    module, _, kind = SYSTEMS[name].partition(":")
    found: Streamer = getattr(importlib.import_module(module), kind)()
    return found
