"""`vertexsdk stream --resume`, started again whenever it dies: it ends as if it never had.

A shell loop stands for whatever starts a service again: systemd, Kubernetes, YARN.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.seeds import seed
from vertexsdk.loops.ledger import Ledger
from vertexsdk.state import open_store
from vertexsdk.testing.oracles import disagreements, expected

pytestmark = pytest.mark.processes

EVERY = 7
KILLS = 2
PATIENCE = 240.0
AGAIN = f"""until {sys.executable} -m vertexsdk stream sssp --edges base.txt --changes in/*.txt \\
    --param origin=0 --query-every {EVERY} --output out.csv --stats stats.json --resume \\
    --engine local --backend "$1"; do :; done"""


def write_changes(rng: random.Random, directory: Path) -> list[tuple[str, int, int, float]]:
    """Write three change files; return the changes in them, in order."""
    changes = []
    for k in range(3):
        text = ""
        for _ in range(70):
            sign, a, b = rng.choice("++-~"), rng.randrange(9), rng.randrange(9)
            x = rng.randint(1, 5)
            text += f"{sign} {a} {b} {x}\n" + rng.choice(["", "", "# none\n", "bad\n"])
            changes.append((sign, a, b, float(x)))
        (directory / f"{k}.txt").write_text(text)
    return changes


def started(shell: int) -> int | None:
    """The command that a shell runs now."""
    children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    return int(children[0]) if children else None


def kill_when(wanted: int, shell: subprocess.Popen[bytes], place: Path, seconds: float) -> bool:
    """Kill the command some seconds after it has written that many answers, unless all is done.

    Returns:
        Whether it was killed: the shell has started another one since.
    """
    end = time.monotonic() + PATIENCE
    while len([*place.glob("out-*.csv")]) < wanted and shell.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    time.sleep(seconds)
    while shell.poll() is None:
        assert time.monotonic() < end
        if (process := started(shell.pid)) is not None:  # else it is being started again
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(process, signal.SIGKILL)
            while shell.poll() is None:
                if started(shell.pid) not in (process, None):
                    return True
                assert time.monotonic() < end
                time.sleep(0.002)
    return False


def test_a_stream_that_is_killed_ends_by_itself(tmp_path: Path) -> None:
    rng = random.Random(seed())
    (tmp_path / "in").mkdir()
    (tmp_path / "base.txt").write_text("0 1\n")
    changes = write_changes(rng, tmp_path / "in")
    store = f"lmdb://{tmp_path}/state"
    with (tmp_path / "errors").open("wb") as errors, subprocess.Popen(
        ["sh", "-c", AGAIN, "sh", store], cwd=tmp_path, stderr=errors, start_new_session=True
    ) as shell:  # fmt: skip
        try:
            answers = sorted(rng.sample(range(1, len(changes) // EVERY - 10), KILLS))
            kills = [kill_when(k, shell, tmp_path, rng.uniform(0, 0.05)) for k in answers]
            assert shell.wait(PATIENCE) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # it would start the command for ever
    assert kills[0]
    assert (tmp_path / "errors").read_text().count("Killed") == sum(kills)

    edges = {(0, 1): 1.0}
    for number, (sign, a, b, value) in enumerate(changes, 1):
        if sign == "-":
            edges.pop((a, b), None)
        elif sign == "+" or (a, b) in edges:
            edges[a, b] = value
        if number % EVERY == 0:
            head, *rows = (tmp_path / f"out-{number // EVERY}.csv").read_text().split()
            assert head == "vertex,value"
            got = {int(v): {"length": float(x)} for v, x in (row.split(",") for row in rows)}
            rows_now = [(s, t, x) for (s, t), x in edges.items()]
            assert not disagreements(expected("sssp", rows_now, [0], {"origin": 0}), got)
    assert len([*tmp_path.glob("out-*.csv")]) == len(changes) // EVERY
    with open_store(store) as opened:
        ledger = Ledger.read(opened.version("sssp"))
    assert (ledger.received, ledger.repeated) == (len(changes), 0)  # no line was read twice
    last = json.loads((tmp_path / "stats.json").read_text())
    assert last["changes"] < last["total_changes"] == len(changes)  # it did not begin anew
