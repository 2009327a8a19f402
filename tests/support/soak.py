"""`./dev soak state`: kill the driver, a worker or the server at random instants, again and again.

A driver process commits versions whose content tells their iteration, written by two worker
processes, and says when each commit was acknowledged. After every kill the store must have every
version that was acknowledged, and each version that is there must be whole. With `--runs` the
driver is that of a real run on Spark: see `soak_runs`. `./dev soak kills` kills what main loops
and stateful classes need while changes and calls stream in, and measures how long it takes to serve
again: see `soak_kills`.
`./dev soak protocol` kills nothing: it makes random runs of the protocol of bounded asynchrony; see
`protocol_simulator`. `./dev soak simulate` makes runs and main loops of which processors,
connections and messages are lost in one process, see `simulated_histories`, and those whose store
fails too, see `simulated_stores`; with `--twice` it makes each a second time, and compares, see
`simulated_twice`. `./dev soak faults` has every call of a session and of a main
loop with a store fail in every way, one after the other; see `store_scenarios`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tests.support.protocol_simulator import soak_protocol
from tests.support.servers import PostgresServer, RedisServer
from tests.support.simulated_histories import soak_simulated
from tests.support.simulated_stores import soak_stores
from tests.support.simulated_twice import soak_twice
from tests.support.soak_kills import soak_kills
from tests.support.soak_runs import opened, soak_runs
from tests.support.store_scenarios import soak_faults
from vertexsdk.state import Store, open_store

__all__ = ["main", "soak"]

ROWS = 2000
_KEPT = 50


def main(arguments: list[str] | None = None) -> int:
    """Soak each backend; exit status 1 if a commit was lost or a wrong version read."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("what", choices=["state", "kills", "protocol", "simulate", "faults"])
    parser.add_argument("--count", type=int, default=200, help="kills of each backend; default 200")
    parser.add_argument(
        "--program", choices=["main", "stateful"], help="what `kills` is about; default: both"
    )
    parser.add_argument("--worlds", type=int, default=20_000, help="of the protocol; default 20000")
    parser.add_argument("--histories", type=int, default=1000, help="simulated; default 1000")
    parser.add_argument("--twice", action="store_true", help="simulate each history two times")
    parser.add_argument("--backend", default="lmdb,redis,postgres", help="default: all but memory")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--runs", action="store_true", help="kill during real runs on Spark")
    parser.add_argument("--master", help="of those runs, and of `kills`; none: without Spark")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}")
    if options.what == "protocol":
        print(soak_protocol(options.worlds, random.Random(options.seed)), flush=True)
        return 0
    if options.what == "simulate" and options.twice:
        print(soak_twice(options.histories, options.seed), flush=True)
        return 0
    if options.what == "simulate":
        print(soak_simulated(options.histories, options.seed), flush=True)
        print(soak_stores(options.histories, options.seed), flush=True)
        return 0
    for name in options.backend.split(","):
        with _started(name) as (url, server):
            chance = random.Random(options.seed)
            if options.what == "faults":
                said = soak_faults(url)
            elif options.what == "kills":
                master = options.master or "local-cluster[2,2,1024]"
                programs = [options.program] if options.program else ["main", "stateful"]
                tables = [
                    soak_kills(
                        url, server, options.count // len(programs), chance, program=program,
                        master=master, show=True,
                    ).table()
                    for program in programs
                ]  # fmt: skip
                said = "\n" + "\n\n".join(tables)
            elif options.runs:
                said = soak_runs(
                    url, server, options.count, chance, options.master or "local-cluster[2,1,1024]"
                )
            else:
                said = soak(url, server, options.count, chance)
        print(f"{name}: {said}", flush=True)
    return 0


def soak(url: str, server: Any, kills: int, chance: random.Random) -> str:
    """Kill `kills` times; what was killed, in words.

    Raises:
        AssertionError: a commit was lost, or a version is wrong.
    """
    context = multiprocessing.get_context("spawn")
    counts = {"driver": 0, "worker": 0, "server": 0}
    last = -1
    open_store(url).close()
    for number in range(kills):
        victim = chance.choice(["driver", "worker", *(["server"] if server else [])])
        counts[victim] += 1
        ours, theirs = context.Pipe(duplex=False)
        driver = context.Process(target=_drive, args=(url, theirs))
        driver.start()
        theirs.close()
        acknowledged, workers = _listen(ours)
        if acknowledged is not None:
            last = max(last, acknowledged)
        time.sleep(chance.uniform(0, 0.15))
        if victim == "server":
            server.kill()
            time.sleep(chance.uniform(0, 0.1))
            server.start()
            time.sleep(chance.uniform(0, 0.2))
        elif victim == "worker":
            _kill(chance.choice(workers) if workers else 0)
            time.sleep(chance.uniform(0, 0.1))
        driver.kill()
        driver.join()
        for worker in workers:
            _kill(worker)
        while ours.poll():
            try:
                said = ours.recv()
            except EOFError:
                break
            last = max(last, said if isinstance(said, int) else -1)
        ours.close()
        driver.close()
        with opened(url) as store:
            _check(store, last, number)
            if number % 10 == 9:
                store.prune("loop", _KEPT)
                store.collect(0, alone=True)
                found = store.audit()
                assert not found.unreferenced, found.unreferenced
    kinds = ", ".join(f"{count} of the {name}" for name, count in counts.items() if count)
    return f"{kills} kills ({kinds}), {last + 1} commits acknowledged, none lost, none wrong"


def _check(store: Store, last: int, number: int) -> None:
    store.claim("loop")  # what the dead one sent has landed, or never will
    versions = store.versions("loop")
    newest = versions[-1] if versions else -1
    assert newest in (last, last + 1), f"kill {number}: {last} acknowledged, {newest} found"
    assert versions == list(range(newest - len(versions) + 1, newest + 1)), versions
    for at in versions[-3:]:
        parts = list(store.read("loop", at))
        assert len(parts) == 2, f"kill {number}: version {at} has {len(parts)} partitions"
        for _, columns in parts:
            assert (columns["value"] == float(at)).all(), f"kill {number}: version {at} is wrong"
    assert store.verify() == []


def _drive(url: str, ours: Connection) -> None:
    """Commit for ever; messages: the workers' process ids, then each acknowledged iteration."""
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(2)]
    workers = [context.Process(target=_work, args=(url, p, pipes[p][1])) for p in range(2)]
    for worker in workers:
        worker.start()
    ours.send([worker.pid for worker in workers])
    store = open_store(url)
    newest = store.claim("loop")
    iteration = newest.iteration if newest else -1
    while True:
        iteration += 1
        kind = "base" if newest is None or iteration % 5 == 0 else "delta"
        for mine, _ in pipes:
            mine.send((iteration, kind))
        refs = [mine.recv() for mine, _ in pipes]
        newest = store.commit("loop", iteration=iteration, segments=refs, parent=newest)
        ours.send(iteration)
        if iteration % 7 == 0:
            store.prune("loop", _KEPT)


def _work(url: str, partition: int, orders: Connection) -> None:
    store = open_store(url)
    columns: dict[str, Any] = {"id": np.arange(ROWS)}
    while True:
        iteration, kind = orders.recv()
        columns["value"] = np.full(ROWS, float(iteration))
        orders.send(store.put_segment("loop", partition, iteration, kind, columns))


def _listen(ours: Connection) -> tuple[int | None, list[int]]:
    """Wait for the driver to say its workers, and its first commit if it comes to that."""
    workers: list[int] = ours.recv()
    try:
        return ours.recv() if ours.poll(20) else None, workers
    except EOFError:
        return None, workers


def _kill(process: int) -> None:
    if process:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@contextmanager
def _started(name: str) -> Iterator[tuple[str, Any]]:
    with ExitStack() as stack:
        if name == "redis":
            server: Any = stack.enter_context(RedisServer())
            yield server.url(), server
        elif name == "postgres":
            server = stack.enter_context(PostgresServer())
            yield server.url(), server
        elif name == "lmdb":
            directory = tempfile.mkdtemp(prefix="vertexsdk-soak-")
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            yield f"lmdb://{directory}/store", None
        else:
            raise SystemExit(f"no backend {name!r} to soak: lmdb, redis or postgres")


if __name__ == "__main__":
    sys.exit(main())
