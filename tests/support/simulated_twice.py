"""Everything that a seed decides happens again: `./dev soak simulate --twice`.

Simulated runs, main loops, and main loops whose stores fail, are made by two processes, and what
happened in them is compared. The second process has another order of hashes and compiles
everything itself, and all cores are busy while it works.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.simulated_histories import simulate_loop, simulate_run
from tests.support.simulated_stores import simulate_store

__all__ = ["soak_twice"]


def soak_twice(histories: int, seed: int) -> str:
    """Make so many histories of each kind twice; what was compared, in words.

    Raises:
        AssertionError: what happened differs.
    """
    with tempfile.TemporaryDirectory(prefix="vertexsdk-twice-") as directory:
        first, second = Path(directory, "first"), Path(directory, "second")
        _record(first, histories, seed, PYTHONHASHSEED="1")
        caches = {"VERTEXSDK_CACHE_DIR": f"{directory}/cache", "NUMBA_CACHE_DIR": f"{directory}/n"}
        with _busy_cores():
            _record(second, histories, seed, PYTHONHASHSEED="2", **caches)
        lines = 0
        with first.open() as one, second.open() as other:
            for before, after in zip(map(json.loads, one), map(json.loads, other), strict=True):
                (name, happened), (_, again) = before, after
                for k, line in enumerate(happened):
                    assert again[k : k + 1] == [line], (
                        f"{name}, line {k}: {line}, {again[k : k + 1]}"
                    )
                assert len(again) == len(happened), f"{name}: {again[len(happened)]} is new"
                lines += len(happened)
    return f"3 times {histories} histories twice, {lines} lines: the same things happened"


def _record(file: Path, histories: int, seed: int, **environment: str) -> None:
    command = [sys.executable, "-m", __name__, str(file), str(histories), str(seed)]
    subprocess.run(command, env=os.environ | environment, check=True)


@contextlib.contextmanager
def _busy_cores() -> Iterator[None]:
    """Have a process for each core that does nothing else."""
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _main(file: str, histories: str, seed: str) -> None:
    """Write what happens in each history, one a line."""
    with open(file, "w") as lines, tempfile.TemporaryDirectory(prefix="vertexsdk-twice-") as place:
        for number in range(int(seed), int(seed) + int(histories)):
            for name, trace in (
                ("simulate_run", simulate_run(number).trace),
                ("simulate_loop", simulate_loop(number, f"lmdb://{place}/{number}").trace),
                ("simulate_store", simulate_store(number, "memory://twice").simulator.trace),
            ):
                lines.write(json.dumps([f"{name}({number})", trace]) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
