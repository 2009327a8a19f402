"""Put and get in bulk and one by one: a stateful class on each store, a dict, Valkey."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.keyed.classes import KeyValue, Names
from benchmarks.keyed.sizes import Sizes
from tests.support.servers import NotInstalled, PostgresServer, RedisServer
from vertexsdk import StatefulLoop

_FEWER = 8  # calls of a turn with a server, which takes 0.1 s for what takes a dict 0.01
_PIPELINE = 1000  # commands that the client sends at once

_GIVEN: dict[str, Callable[[Any], Any]] = {
    "arrays": lambda values: values,
    "lists": lambda values: values.tolist(),
    "strings": lambda values: values.astype(str) if values.dtype.kind == "i" else values,
}


def _turns(
    process: CaseProcess, sizes: Sizes, put: Callable[[Any, Any], Any], get: Callable[[Any], Any],
    given: str = "arrays",
) -> None:  # fmt: skip
    """Put and get in turns; note calls per second, and compare what was put with what is got."""
    rng, form = np.random.default_rng(1), _GIVEN[given]
    keys = np.unique(rng.integers(0, 1 << 62, sizes.keys))
    put(form(keys), form(np.zeros(len(keys))))
    for turn in range(sizes.turns):
        chosen = keys[rng.integers(0, len(keys), sizes.calls)]
        values = chosen.astype(float) + turn
        wanted, new = form(chosen), form(values)
        began = time.perf_counter()
        put(wanted, new)
        between = time.perf_counter()
        answers = get(wanted)
        process.note("put", sizes.calls / (between - began))
        process.note("get", sizes.calls / (time.perf_counter() - between))
        if not np.array_equal(np.asarray(answers, float), values):
            raise Wrong("values that were got are not those that were put")


def loop(
    process: CaseProcess,
    sizes: Sizes,
    backend: str = "lmdb://{scratch}/state",
    partitions: int = 1,
    given: str = "arrays",
) -> None:
    """A stateful class in this process, its log in a store."""
    url = backend.format(scratch=process.scratch)
    cls: Any = Names if given == "strings" else KeyValue
    with StatefulLoop(cls, backend=url, partitions=partitions) as flow:
        _turns(process, sizes, flow.put.map, flow.get.map, given)
        for number in range(sizes.single if given == "arrays" else 0):
            for kind, arguments in (("put", (number, 1.0)), ("get", (number,))):
                began = time.perf_counter()
                getattr(flow, kind)(*arguments)
                process.note(f"one {kind}", time.perf_counter() - began)


def served(make: type[RedisServer | PostgresServer], process: CaseProcess, sizes: Sizes) -> None:
    """The same, its log in a server that writes to the disk before it answers."""
    with _started(make) as server:
        if server is not None:
            fewer = replace(sizes, calls=sizes.calls // _FEWER)
            loop(process, fewer, server.url())


def dictionary(process: CaseProcess, sizes: Sizes) -> None:
    """A dict in a Python loop: nothing is kept."""
    values: dict[int, float] = {}

    def put(keys: Any, new: Any) -> None:
        for key, value in zip(keys.tolist(), new.tolist(), strict=True):
            values[key] = value

    _turns(process, sizes, put, lambda keys: [values[key] for key in keys.tolist()])


def valkey(process: CaseProcess, sizes: Sizes) -> None:
    """Valkey by pipelines of its client, which writes to the disk every second."""
    with _started(RedisServer, "--appendfsync", "everysec") as server:
        if server is None:
            return
        import redis

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


def _started(make: Any, *settings: str) -> Any:
    """A server as a context manager; None in it where the server is not installed."""
    try:
        return make(*settings)
    except NotInstalled as missing:
        print(missing, file=sys.stderr)
        return nullcontext()
