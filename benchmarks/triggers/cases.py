"""The cases: each is one function, run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.case_process import CaseProcess
from benchmarks.triggers import accumulations, clustering, ranks, words, writes
from benchmarks.triggers.sizes import Sizes

__all__ = ["CASES"]

CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "writes-memory": partial(writes.writes, backend="memory://bench"),
    "writes-lmdb": writes.writes,
    "preemption": accumulations.preemption,
    "reuse": accumulations.reuse,
    "words-ours": words.words,
    "words-spark": words.words_by_spark,
    "words-pathway": words.words_by_pathway,
    "pagerank-ours": ranks.ranks,
    "pagerank-spark": ranks.ranks_by_spark,
    "clustering": clustering.clustering,
}
