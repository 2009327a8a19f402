"""The cases: each is one function, run in a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.keyed.sizes import Sizes
from tests.support.servers import NotInstalled, RedisServer
from vertexsdk import Map, Partitioned, Stateful, StatefulLoop

__all__ = ["CASES", "run_case"]

_FEWER = 8  # calls of a turn of Valkey, which takes 0.1 s for what takes a dict 0.01
_PIPELINE = 1000  # commands that the client sends at once


class KeyValue(Stateful):
    """The class of the SDG paper's figures 6 and 7."""

    values = Partitioned(Map(int, float), key="key")

    def put(self, key: int, value: float) -> None:
        """Set the value of a key."""
        self.values[key] = value

    def get(self, key: int) -> float:
        """Return the value of a key."""
        return self.values.get(key, 0.0)


class Names(Stateful):
    """The same, with strings as keys."""

    values = Partitioned(Map(str, float), key="key")

    def put(self, key: str, value: float) -> None:
        """Set the value of a key."""
        self.values[key] = value

    def get(self, key: str) -> float:
        """Return the value of a key."""
        return self.values.get(key, 0.0)


def _turns(
    process: CaseProcess, sizes: Sizes, put: Callable[[Any, Any], Any], get: Callable[[Any], Any],
    name: Callable[[Any], Any] = lambda keys: keys,
) -> None:  # fmt: skip
    """Put and get in turns; note calls per second, and compare what was put with what is got."""
    rng = np.random.default_rng(1)
    keys = np.unique(rng.integers(0, 1 << 62, sizes.keys))
    put(name(keys), np.zeros(len(keys)))
    for turn in range(sizes.turns):
        chosen = keys[rng.integers(0, len(keys), sizes.calls)]
        values = chosen.astype(float) + turn
        given = name(chosen)
        began = time.perf_counter()
        put(given, values)
        between = time.perf_counter()
        answers = get(given)
        process.note("put", sizes.calls / (between - began))
        process.note("get", sizes.calls / (time.perf_counter() - between))
        if not np.array_equal(np.asarray(answers, float), values):
            raise Wrong("values that were got are not those that were put")


def loop(url: str, partitions: int, cls: Any, process: CaseProcess, sizes: Sizes) -> None:
    """A stateful class in this process, its log in a store."""
    backend = url.format(scratch=process.scratch)
    with StatefulLoop(cls, backend=backend, partitions=partitions) as flow:
        name = (lambda keys: keys) if cls is KeyValue else (lambda keys: keys.astype(str))
        _turns(process, sizes, flow.put.map, flow.get.map, name)
        for number in range(sizes.single if cls is KeyValue else 0):
            for kind, arguments in (("put", (number, 1.0)), ("get", (number,))):
                began = time.perf_counter()
                getattr(flow, kind)(*arguments)
                process.note(f"one {kind}", time.perf_counter() - began)


def dictionary(process: CaseProcess, sizes: Sizes) -> None:
    """A dict in a Python loop: nothing is kept."""
    values: dict[int, float] = {}

    def put(keys: Any, new: Any) -> None:
        for key, value in zip(keys.tolist(), new.tolist(), strict=True):
            values[key] = value

    _turns(process, sizes, put, lambda keys: [values[key] for key in keys.tolist()])


def valkey(process: CaseProcess, sizes: Sizes) -> None:
    """Valkey by pipelines of its client, which writes to the disk every second."""
    try:
        server = RedisServer("--appendfsync", "everysec")
    except NotInstalled as missing:
        print(f"no Valkey: {missing}", file=sys.stderr)
        return
    import redis

    with server:
        client = redis.Redis(port=server.port)

        def put(keys: Any, new: Any) -> None:
            pairs = list(zip(keys.tolist(), new.tolist(), strict=True))
            for k in range(0, len(pairs), _PIPELINE):
                pipeline = client.pipeline(transaction=False)
                for key, value in pairs[k : k + _PIPELINE]:
                    pipeline.set(key, value)
                pipeline.execute()

        def get(keys: Any) -> list[float]:
            answers: list[Any] = []
            wanted = keys.tolist()
            for k in range(0, len(wanted), _PIPELINE):
                pipeline = client.pipeline(transaction=False)
                for key in wanted[k : k + _PIPELINE]:
                    pipeline.get(key)
                answers += pipeline.execute()
            return [float(answer) for answer in answers]

        _turns(process, replace(sizes, calls=sizes.calls // _FEWER), put, get)


CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "dict": dictionary,
    "valkey": valkey,
    "memory-1": partial(loop, "memory://bench", 1, KeyValue),
    "lmdb-1": partial(loop, "lmdb://{scratch}/state", 1, KeyValue),
    "lmdb-2": partial(loop, "lmdb://{scratch}/state", 2, KeyValue),
    "strings-1": partial(loop, "lmdb://{scratch}/state", 1, Names),
}


def run_case(process: CaseProcess) -> None:
    """Do one case."""
    sizes = process.sizes(Sizes)
    process.ready()
    with process.measuring():
        CASES[process.case](process, sizes)
