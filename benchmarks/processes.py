"""The processes of one child and what they hold in memory, read from /proc (Linux).

A child is started in a session of its own. Spark's JVM and its Python workers stay in that session,
whatever process groups they make, so the session is the unit that is watched and ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SHARED = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes in memory.

    ``total``: resident in all processes, what several map counted in each. ``workers``: what only
    Spark's Python workers hold and the kernel cannot drop: their anonymous pages, and the files
    that vertexsdk keeps for them in shared memory. ``workers_mapped``: their proportional share of
    everything mapped, libraries and input files too.
    """

    total: int
    workers: int = 0
    workers_mapped: int = 0


def members(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                # The name in parentheses may hold blanks: the fields follow the last one.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def held(processes: list[int]) -> Held:
    """What the processes hold now, without looking at the workers: cheap enough while timing."""
    total, page = 0, os.sysconf("SC_PAGE_SIZE")
    for process in processes:
        with contextlib.suppress(OSError, IndexError, ValueError):
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * page
    return Held(total)


def held_by_workers(processes: list[int]) -> Held:
    """What the processes and Spark's Python workers among them hold now."""
    own = mapped = 0
    for process in processes:
        folder = Path(f"/proc/{process}")
        with contextlib.suppress(OSError, IndexError, ValueError):
            is_python = "java" not in (folder / "comm").read_text()
            if is_python and b"daemon" in (folder / "cmdline").read_bytes():
                lines = (folder / "smaps_rollup").read_text().splitlines()
                sizes = {f[0]: int(f[1]) << 10 for f in map(str.split, lines) if f[-1] == "kB"}
                own += sizes["Pss_Anon:"]
                mapped += sizes["Pss:"]
    return Held(held(processes).total, own + _shared(processes), mapped)


def held_by_kind(processes: list[int], driver: int) -> dict[str, int]:
    """Resident bytes of the driver, the JVM and the Python workers of a session.

    Each also without mapped files ("driver own" and so on): those the kernel can drop, and what
    several processes map is counted in each. "shared": what vertexsdk keeps in shared memory.
    """
    found = {f"{k}{own}": 0 for k in ("driver", "jvm", "workers") for own in ("", " own")}
    for process in processes:
        folder = Path(f"/proc/{process}")
        with contextlib.suppress(OSError, KeyError, ValueError):
            java = "java" in (folder / "comm").read_text()
            kind = "driver" if process == driver else "jvm" if java else "workers"
            lines = (folder / "status").read_text().splitlines()
            sizes = {f[0]: int(f[1]) << 10 for f in map(str.split, lines) if f[-1] == "kB"}
            found[kind] += sizes["VmRSS:"]
            found[f"{kind} own"] += sizes["RssAnon:"]
    return found | {"shared": _shared(processes)}


def _shared(processes: list[int]) -> int:
    """Bytes of the resident graphs whose owner is one of the processes."""
    total = 0
    for process in processes:
        for mark in _SHARED.glob(f"vertexsdk-*/lock-{process}-*"):
            for file in mark.parent.rglob("*"):
                with contextlib.suppress(OSError):
                    total += file.stat().st_blocks * 512
    return total


def busy() -> float:
    """Seconds of processor time that the whole machine has spent, stolen time included."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    # Of user, nice, system, idle, iowait, irq, softirq, steal: all but idle and iowait.
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def spent(processes: list[int]) -> float:
    """Seconds of processor time that the processes, and children they waited for, have spent."""
    ticks = 0
    for process in processes:
        with contextlib.suppress(OSError, IndexError, ValueError):
            stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(word) for word in stat[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Limits:
    """``seconds`` for a process, ``memory`` in bytes for all of its session."""

    seconds: float
    memory: int

    def exceeded(self, seconds: float, memory: int) -> str | None:
        """The limit that was passed, in words."""
        if memory > self.memory:
            return f"did not finish: more than {self.memory / 1e9:.0f} GB of memory"
        if seconds > self.seconds:
            return f"did not finish in {self.seconds:.0f} s"
        return None


def follow(
    command: list[str],
    job: object,
    events: Path,
    log: Path,
    hear: Callable[[str], None],
    look: Callable[[int], bool],
    pause: Callable[[], float] = lambda: 0.1,
    **options: Any,
) -> int:
    """Run a command in a session of its own until it ends; its exit status.

    Args:
        job: what it reads as JSON from standard input.
        events: the file to which it appends lines; it may be its standard output.
        log: where standard error goes, and standard output unless ``options`` say otherwise.
        hear: called with each of these lines.
        look: called with its session every ``pause()`` seconds; ends it by returning True.
        options: of `subprocess.Popen`.
    """
    events.touch()
    with log.open("ab") as output:
        popen = {"stdout": output, "cwd": Path(__file__).parent.parent} | options
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=output, start_new_session=True, **popen
        )
    assert child.stdin is not None
    try:
        with contextlib.suppress(BrokenPipeError), child.stdin as stdin:
            stdin.write(json.dumps(job).encode())
        part, ended, enough = "", False, False
        with events.open() as lines:
            while not ended and not enough:
                ended = child.poll() is not None
                *whole, part = (part + lines.read()).split("\n")
                for line in whole:
                    hear(line)
                if not ended:
                    enough = look(child.pid)
                    time.sleep(pause())
    finally:
        end(child.pid)
        child.wait()
    return child.returncode


def run_until(command: list[str], limit: float) -> int | None:
    """Run a command in a session of its own; its exit status, None where its time was up.

    It is told to end first, and has 15 seconds to end the sessions that it started.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=Path(__file__).parent.parent,
        start_new_session=True,
    )
    status: int | None = None
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = child.wait(limit)
    finally:
        if child.poll() is None:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(15)
        end(child.pid)
        child.wait()
    return status


def end(session: int) -> None:
    """End every process of a session which this harness started."""
    for process in members(session):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def available() -> int:
    """Bytes of memory that can be had now without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Events:
    """The child's end of the protocol: one JSON object per line, each with its kind and time."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("a")  # noqa: SIM115  (lives as long as the process)

    def tell(self, kind: str, **facts: object) -> None:
        """Append one event and hand it to the operating system at once."""
        self._file.write(json.dumps({"event": kind, "at": time.time(), **facts}) + "\n")
        self._file.flush()


_GRAIN = 0.03  # seconds by which the kernel's counts, of hundredths for each process, may be off


class Others:
    """What share of the machine's cores other programs use, from now on."""

    def __init__(self) -> None:
        self._from = self._now()

    def share(self) -> float:
        """0 on a quiet machine, 1 when others keep all cores busy."""
        clock, foreign = (b - a for a, b in zip(self._from, self._now(), strict=True))
        return max(0.0, foreign - _GRAIN) / (clock * (os.cpu_count() or 1))

    @staticmethod
    def _now() -> tuple[float, float]:
        harness = os.getppid()  # which samples memory often, while that is measured
        mine = spent([*members(os.getsid(0)), harness])
        return time.perf_counter(), busy() - mine
