"""`./dev soak kills`: kill what a loop needs at random instants of what it does.

A driver process takes changes into a main loop and asks for answers (see `killed_driver`), or makes
calls of a stateful class (see `killed_calls`), on a cluster of Spark or in its own process. What is
killed: the driver, after which another goes on from the store; the Python worker of a processor;
its executor; the store's server, which is started again over the same directory. After each kill
nothing that was acknowledged may be lost or doubled, answers must equal those of NetworkX for the
same edges, or those of a plain object of the class, and the loop must serve again: a batch or calls
that were sent after the kill are acknowledged, and an exact answer is given. How long that takes is
measured.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tests.support import killed_calls
from tests.support.call_record import CallRecord
from tests.support.killed_driver import PROGRAMS, Edges, apply_batch, batch
from tests.support.soak_runs import opened, processes_of_session
from vertexsdk.testing.oracles import disagreements, expected

__all__ = ["KINDS", "Kills", "StreamRecord", "check_answer", "soak_kills"]

KINDS = ("driver", "executor", "worker", "server")
_PATIENCE = 180.0  # seconds in which the loop must serve
_TOLERANCE = 1e-8
_VERSIONS = 200  # in the store, of a loop that keeps 4
_FIELDS = {"sssp": "length", "wcc": "component", "pagerank": "rank"}


@dataclass
class Kills:
    """What was killed, and the seconds until the loop served again, by kind."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def number(self) -> int:
        """How many there were."""
        return sum(len(times) for times in self.seconds.values())

    def table(self) -> str:
        """A table, as Markdown, and a line that sums up."""
        lines = ["| killed | times | median, s | maximum, s |", "| --- | --- | --- | --- |"]
        for kind in KINDS:
            if times := self.seconds.get(kind):
                middle, longest = statistics.median(times), max(times)
                lines.append(f"| {kind} | {len(times)} | {middle:.1f} | {longest:.1f} |")
        counts = ", ".join(f"{count:,} {what}" for what, count in self.counts.items())
        return "\n".join([*lines, f"{self.number} kills over {counts}: all as it must be"])


def soak_kills(
    url: str,
    server: Any,
    number: int,
    chance: random.Random,
    *,
    program: Literal["main", "stateful"] = "main",
    master: str = "none",
    kinds: list[str] | None = None,
    show: bool = False,
) -> Kills:
    """Kill `number` times; Ctrl-C ends it early.

    Args:
        server: of the store, see `servers`; None if it has none.
        program: of which the loops are: main loops, or stateful classes.
        master: of Spark; "none" has the loop in the driver's process.
        kinds: what is killed, in order; by default drawn from what there is.
        show: print each kill.

    Raises:
        AssertionError: a batch or a call was lost or doubled, an answer was wrong, or the loop did
            not serve again.
    """
    there = ["driver", *(["executor", "worker"] if master != "none" else [])]
    there += ["server"] if server else []
    kills = Kills()
    with tempfile.TemporaryDirectory(prefix="vertexsdk-kills-", ignore_cleanup_errors=True) as made:
        loops: dict[str, _Record] = {name: StreamRecord(name) for name in PROGRAMS}
        if program == "stateful":
            loops = {name: CallRecord(name, Path(made)) for name in killed_calls.PROGRAMS}
        driver = _Driver(url, loops[chance.choice([*loops])], master, Path(made), 0)
        try:
            driver.await_served(time.monotonic())
            for count in range(number):
                kind = kinds[count % len(kinds)] if kinds else chance.choice(there)
                driver.follow(chance.uniform(0.1, 2.0))
                driver = _kill(kind, driver, server, chance, loops, kills)
                if show:
                    print(f"{count + 1}: {kind}, {kills.seconds[kind][-1]:.1f} s", flush=True)
        except KeyboardInterrupt:  # of somebody who has seen enough
            pass
        finally:
            driver.end()
            kills.counts = sum((loop.counts for loop in loops.values()), Counter())
        _check_store(url, [loop.name for loop in loops.values() if loop.begun])
    return kills


def _kill(
    kind: str,
    driver: _Driver,
    server: Any,
    chance: random.Random,
    loops: dict[str, _Record],
    kills: Kills,
) -> _Driver:
    """Kill one, and wait until the loop serves; return the driver that goes on."""
    began = time.monotonic()
    if kind == "driver":
        old = driver.process.pid
        driver.kill()
        if chance.random() < 0.3:  # another loop of the same store
            record = loops[chance.choice([*loops])]
        else:
            record = driver.record
        driver = driver.next(record)
        try:
            driver.await_served(began)
        except BaseException:  # `soak_kills` ends the old one
            driver.end()
            raise
        _end_session(old)
    elif kind == "server":
        server.kill()
        time.sleep(chance.uniform(0, 1.0))
        server.start()
        driver.await_served(began)
    else:
        while not (workers := [*filter(_lives, driver.processors)]):  # they are being started
            driver.follow(0.01)
        worker = chance.choice(workers)
        _kill_process(worker if kind == "worker" else _parent(_parent(worker)))
        while _lives(worker):  # the worker of a dead executor serves on for a moment
            driver.follow(0.01)
        driver.await_served(time.monotonic())
    kills.seconds[kind].append(driver.served - began)
    return driver


@dataclass
class StreamRecord:
    """The stream of one program's loop: what was acknowledged, and the edges after a batch.

    Attributes:
        name: the program's.
        last: the newest batch that was acknowledged.
        counts: of what was compared.
    """

    module, options = "tests.support.killed_driver", ()
    name: str
    last: int = -1
    counts: Counter[str] = field(default_factory=Counter)
    _edges: Edges = field(default_factory=lambda: {(0, 1): 1.0})
    _reached: int = -1
    _changes: int = 0

    @property
    def begun(self) -> bool:
        """Whether the store has the loop."""
        return self.last >= 0

    def take(self, kind: str, words: Sequence[str]) -> None:
        """Take in a line of the driver's log."""
        if kind == "resumed":
            self.resumed(int(words[0]), int(words[1]))
        elif kind == "acknowledged":
            self.acknowledged(int(words[0]))
        elif kind == "answered":
            self.answered(int(words[0]), int(words[1]), Path(words[2]))

    def resumed(self, number: int, changes: int) -> None:
        """Compare what a driver has resumed with what was acknowledged."""
        assert self.last <= number <= self.last + 1, (
            f"{self.name}: batch {self.last} was acknowledged, the loop has {number}"
        )
        self._forward(number)
        assert changes == self._changes, f"{self.name}: {changes} changes, not {self._changes}"
        self.last = number

    def acknowledged(self, number: int) -> None:
        """Note a batch, each of which comes once and in order."""
        assert number == self.last + 1, f"{self.name}: batch {number} after {self.last}"
        self.last = number
        self.counts["batches"] += 1

    def answered(self, number: int, changes: int, file: Path) -> None:
        """Compare an answer with the oracle's."""
        assert number == self.last, f"{self.name}: an answer for {number}, after {self.last}"
        self._forward(number)
        assert changes == self._changes, f"{self.name}: {changes} changes, not {self._changes}"
        with np.load(file) as columns:
            check_answer(self.name, self._edges, dict(columns))
        file.unlink()
        self.counts["answers"] += 1

    def _forward(self, number: int) -> None:
        """Make the edges those after a batch."""
        while self._reached < number:
            self._reached += 1
            apply_batch(self._edges, self._reached)
            self._changes += len(batch(self._reached))


def check_answer(program: str, edges: Edges, columns: dict[str, Any]) -> None:
    """Compare an answer with NetworkX's for the same edges.

    Raises:
        AssertionError: they differ: says where.
    """
    params = PROGRAMS[program]
    rows = [(a, b, x) for (a, b), x in edges.items()]
    wanted = expected(program, rows, [*params.values()], params)
    name = _FIELDS[program]
    pairs = zip(columns["id"].tolist(), columns[name].tolist(), strict=True)
    wrong = disagreements(wanted, {v: {name: x} for v, x in pairs}, _TOLERANCE)
    assert not wrong, f"{program}: {wrong[:5]}"


_Record = StreamRecord | CallRecord


class _Driver:
    """A driver process with its JVM and executors, and what it has said.

    Attributes:
        processors: the processes of the loop's processors.
        served: when the loop served again, as `await_served` found.
    """

    def __init__(self, url: str, record: _Record, master: str, place: Path, number: int):
        self._given = url, master, place
        self._number, self.record = number, record
        self._log, self._errors = place / f"log-{number}", place / f"errors-{number}"
        self._log.touch()
        command = [sys.executable, "-m", record.module, url, record.name, master]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, str(self._log), str(place), *record.options],
                stdout=errors, stderr=errors, start_new_session=True,
            )  # fmt: skip
        self._position = 0
        self.processors: list[int] = []
        self._sent = self._asked = float("-inf")  # of the newest batch and answer that came back
        self.served = self._came = 0.0

    def next(self, record: _Record) -> _Driver:
        """A driver that goes on after this one."""
        url, master, place = self._given
        return _Driver(url, record, master, place, self._number + 1)

    def follow(self, seconds: float) -> None:
        """Read what it says for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._require(self.process.poll() is None, "ended")
            self._read()
            time.sleep(0.01)

    def await_served(self, since: float) -> None:
        """Wait until it serves: what was sent and asked after `since` has come back."""
        end = time.monotonic() + _PATIENCE
        while min(self._sent, self._asked) < since:
            self._require(time.monotonic() < end, "does not serve again")
            self.follow(0.02)
        self.served = self._came

    def kill(self) -> None:
        """Kill the process of the driver, not its JVM, and read what it has said."""
        _kill_process(self.process.pid)
        self.process.wait()
        self._read()

    def end(self) -> None:
        """Kill whatever is left of it."""
        _end_session(self.process.pid)
        self.process.wait(30)

    def _read(self) -> None:
        with self._log.open("rb") as log:
            log.seek(self._position)
            text = log.read().decode()
        whole = text[: text.rfind("\n") + 1]
        self._position += len(whole.encode())
        for line in whole.splitlines():
            kind, came, *words = line.split(" ")
            self._take(kind, float(came), words)

    def _take(self, kind: str, came: float, words: list[str]) -> None:
        if kind == "processors":
            self.processors = [int(word) for word in words]
            self._require(bool(words) or self._given[1] == "none", "has no processors")
        elif kind == "acknowledged":
            self._sent, self._came = float(words.pop(0)), came
        elif kind == "answered":
            self._asked, self._came = float(words.pop(0)), came
        self.record.take(kind, words)

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            said = self._log.read_text()[-1000:] + self._errors.read_text(errors="replace")[-2000:]
            raise AssertionError(f"the driver {what}: {said}")


def _check_store(url: str, loops: list[str]) -> None:
    """Read and check everything that is in the store."""
    with opened(url) as store:
        for loop in loops:
            assert len(store.versions(loop)) < _VERSIONS
        assert store.verify() == []


def _parent(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def _lives(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _end_session(leader: int) -> None:
    """Kill what is left of the processes that a driver has started."""
    for _ in range(100):
        left = [process for process, _ in processes_of_session(leader)]
        for process in left:
            _kill_process(process)
        if not left:
            return
        time.sleep(0.05)


def _kill_process(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
