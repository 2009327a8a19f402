"""Real runs that commit every iteration, killed at random instants: driver, worker or server.

A driver process runs a slow program over a small graph again and again, each time under a new
loop name, and writes down each commit when it was acknowledged. What each iteration must hold is
known from a run that nobody disturbed. After every kill each version that was acknowledged must be
there and hold just that; and so must a version that was committed and not yet written down.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vertexsdk import StateError, Sum, Vertex, state
from vertexsdk.state import Store, open_store

__all__ = ["Slow", "check", "opened", "processes_of_session", "soak_runs"]

ITERATIONS = 40
_PATIENCE = 180.0  # seconds in which a driver must start, and a run must end
_FEW = 12  # loops kept in the store


class Slow(Vertex):
    """A ring whose values never settle, and vertices that never change beside it."""

    value: int = state(0)  # sums of floats would depend on the number of partitions
    messages = Sum(int)
    always = True
    max_iterations = ITERATIONS

    def init(self) -> None:
        """Start from the id."""
        self.value = self.id

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        """Take in the ring's neighbour, slowly."""
        if self.id == 0:
            time.sleep(0.02)
        if self.id < 20:
            self.value = (3 * delta.value + iteration) % 1_000_003

    def scatter(self, iteration: int) -> None:
        """Send to the next one."""
        self.emitAll(self.value)


class _Driver:
    """A driver process, its JVM and executors, and what it wrote down."""

    def __init__(self, url: str, master: str, partitions: int, number: int, place: Path) -> None:
        self.log = place / f"log-{number}"
        self.log.touch()
        self._errors = (place / f"errors-{number}").open("wb")
        self.errors = place / f"errors-{number}"
        code = "from tests.support.soak_runs import drive; drive()"
        command = [sys.executable, "-c", code, url, master, str(partitions), str(number)]
        command += [str(self.log), str(place / "edges.txt")]
        self.process = subprocess.Popen(
            command, stdout=self._errors, stderr=self._errors, start_new_session=True
        )

    def lines(self) -> list[str]:
        """What it wrote down: "begin LOOP", "commit LOOP ITERATION", "end LOOP HOW"."""
        whole = self.log.read_text().rpartition("\n")[0]
        return whole.split("\n") if whole else []

    def wait(self, kind: str, count: int) -> list[str]:
        """Wait until it wrote `count` lines of that kind, or died."""
        end = time.monotonic() + _PATIENCE
        while True:
            dead = self.process.poll() is not None
            lines = self.lines()
            if sum(line.startswith(kind) for line in lines) >= count or dead:
                return lines
            if time.monotonic() > end:
                raise AssertionError(f"the driver hangs: {self.errors.read_text()[-2000:]}")
            time.sleep(0.02)

    def victims(self, what: str) -> list[int]:
        """The process ids of the driver (Python and JVM), or of the workers (either)."""
        found = []
        for process, text in processes_of_session(self.process.pid):
            executor = "CoarseGrainedExecutorBackend" in text
            python = "pyspark.daemon" in text
            kind = "worker" if executor or python else "driver"
            if kind == what:
                found.append(process)
        return found

    def end(self) -> None:
        """Kill whatever is left of it."""
        for _ in range(100):
            left = [process for process, _ in processes_of_session(self.process.pid)]
            for process in left:
                _kill(process)
            self.process.poll()
            if not left:
                break
            time.sleep(0.05)
        self.process.wait(30)
        self._errors.close()


def soak_runs(
    url: str,
    server: Any,
    kills: int,
    chance: random.Random,
    master: str = "local-cluster[2,1,1024]",
) -> str:
    """Kill `kills` times during runs; what was killed and what became of the runs, in words.

    Raises:
        AssertionError: a commit was lost, or a version is wrong.
    """
    counts: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    checked, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vertexsdk-soak-", ignore_cleanup_errors=True) as made:
        place = Path(made)
        edges = [f"{k} {(k + 1) % 20}" for k in range(20)] + [f"{k} 0" for k in range(20, 60)]
        (place / "edges.txt").write_text("\n".join(edges) + "\n")
        open_store(url).close()
        number, driver = 0, None
        expected: dict[int, dict[int, int]] = {}
        try:
            while sum(counts.values()) < kills:
                if driver is None:
                    number += 1
                    driver = _Driver(url, master, chance.choice([1, 2]), number, place)
                    lines = driver.wait("begin", 1)
                    assert lines, driver.errors.read_text()[-2000:]
                if not expected:  # the first run is not disturbed
                    lines = driver.wait("end", 1)
                    ended = [line for line in lines if line.startswith("end")]
                    assert ended
                    assert ended[0].endswith(" done"), driver.errors.read_text()[-2000:]
                    expected = _undisturbed(url, lines[0].split()[1])
                seen = sum(line.startswith("end") for line in driver.lines())  # runs that ended
                driver.wait("begin", seen + 1)
                time.sleep(chance.uniform(0, 2.0))
                victim = chance.choice(["driver", "worker", *(["server"] if server else [])])
                over = sum(line.startswith("end") for line in driver.lines()) > seen
                targets = driver.victims("worker") if victim == "worker" else []
                if over or (victim == "worker" and not targets):
                    continue
                counts[victim] += 1
                if victim == "driver":
                    for process in driver.victims("driver"):
                        _kill(process)
                    driver.end()
                    lines = driver.lines()
                    ends["killed"] += 1
                    driver = None
                else:
                    if victim == "worker":
                        _kill(chance.choice(targets))
                    else:
                        server.kill()
                        time.sleep(chance.uniform(0, 1.0))
                        server.start()
                    lines = driver.wait("end", seen + 1)
                    if driver.process.poll() is not None:
                        ends["died"] += 1
                        driver.end()
                        driver = None
                    else:
                        last = [line for line in lines if line.startswith("end")][seen]
                        ends["went on" if last.endswith(" done") else "failed"] += 1
                loop = [line for line in lines if line.startswith("begin")][seen].split()[1]
                checked += check(url, loop, lines, expected)
        finally:
            if driver is not None:
                driver.end()
    seconds = (time.monotonic() - began) / max(kills, 1)
    kinds = ", ".join(f"{count} of the {name}" for name, count in sorted(counts.items()))
    after = ", ".join(f"{count} {name}" for name, count in sorted(ends.items()))
    return (
        f"{kills} kills during runs ({kinds}; runs: {after}), {checked} acknowledged commits "
        f"read back, none lost, none wrong; {seconds:.1f} s per kill"
    )


def _undisturbed(url: str, loop: str) -> dict[int, dict[int, int]]:
    with opened(url) as store:
        versions = store.versions(loop)
        assert versions == list(range(1, ITERATIONS + 1)), versions
        return {at: _values(store, loop, at) for at in versions}


def check(url: str, loop: str, lines: list[str], expected: dict[int, dict[int, int]]) -> int:
    """Every acknowledged version is there, and whatever is there is right."""
    acknowledged = [int(line.split()[2]) for line in lines if line.startswith(f"commit {loop} ")]
    with opened(url) as store:
        versions = store.versions(loop)
        lost = set(acknowledged) - set(versions)
        assert not lost, f"{loop}: {sorted(lost)} were acknowledged, {versions} are there"
        assert len(versions) <= len(set(acknowledged)) + 1, (loop, acknowledged, versions)
        for at in versions:
            assert _values(store, loop, at) == expected[at], f"{loop}: version {at} is wrong"
        assert store.verify() == []
        loops = sorted(store.loops(), key=lambda name: tuple(map(int, name.split("-")[1:])))
        for old in loops[:-_FEW]:
            store.delete(old)
    return len(acknowledged)


def _values(store: Store, loop: str, at: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for _, columns in store.read(loop, at):
        found |= dict(zip(columns["id"].tolist(), columns["value"].tolist(), strict=True))
    return found


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """The store, when its server answers again."""
    store = None
    for _ in range(50):  # a server that was killed may be reading its log
        try:
            store = open_store(url)
            break
        except StateError:
            time.sleep(0.2)
    assert store is not None, "the server did not come back"
    try:
        yield store
    finally:
        store.close()


def processes_of_session(leader: int) -> list[tuple[int, str]]:
    """The processes of a session, each with its command line."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, IndexError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    raw = Path(f"/proc/{entry}/cmdline").read_bytes()
                    found.append((int(entry), raw.replace(b"\0", b" ").decode(errors="replace")))
    return found


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def drive() -> None:
    """Run the program again and again, in this process; arguments as `_Driver` gives them."""
    url, master, partitions, number, log, edges = sys.argv[1:]
    import vertexsdk
    from vertexsdk.engine import batch_run as loops
    from vertexsdk.errors import VertexError
    from vertexsdk.transport.session import session

    said = os.open(log, os.O_WRONLY | os.O_APPEND)
    commit = loops.Run._commit

    def written_down(run: Any, *given: Any) -> Any:
        manifest = commit(run, *given)
        os.write(said, f"commit {run.loop} {manifest.iteration}\n".encode())
        return manifest

    loops.Run._commit = written_down  # type: ignore[assignment]
    spark = session(master)
    graph = vertexsdk.Graph.read(spark, edges, partitions=int(partitions))
    for count in range(1_000_000):
        loop = f"run-{number}-{count}"
        os.write(said, f"begin {loop}\n".encode())
        try:
            vertexsdk.run(
                Slow, graph, backend=url, loop=loop, commit_every=1, compiled=False, progress=False
            )
            how = "done"
        except VertexError as error:
            how = f"failed: {' '.join(str(error).split())}"
        os.write(said, f"end {loop} {how}\n".encode())
