"""The cases: each is one function, run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.case_process import CaseProcess
from benchmarks.keyed import bulk, chain, counting, ratings, restoring, states, words
from benchmarks.keyed.sizes import Sizes
from tests.support.servers import PostgresServer, RedisServer

__all__ = ["CASES"]

CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "dict": bulk.dictionary,
    "valkey": bulk.valkey,
    "memory-1": partial(bulk.loop, backend="memory://bench"),
    "lmdb-1": bulk.loop,
    "lmdb-2": partial(bulk.loop, partitions=2),
    "strings-1": partial(bulk.loop, given="strings"),
    "lists-1": partial(bulk.loop, given="lists"),
    "redis-1": partial(bulk.served, RedisServer),
    "postgres-1": partial(bulk.served, PostgresServer),
    "states": states.states,
    "processors": states.processors,
    "count-lmdb": counting.counted,
    "count-spark": counting.counted_by_spark,
    "words-lmdb": words.words,
    "words-bytewax": words.words_by_bytewax,
    "words-spark": words.words_by_spark,
    "restore": restoring.restore,
    "ratings-lmdb": ratings.ratings,
    "ratings-spark": ratings.ratings_by_spark,
    "chain": partial(chain.chain, True),
    "chain-inprocess": partial(chain.chain, False),
}
