"""A stream killed at any instants: every answer is there, under its number, and right."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from tests.loops.stream_driver import EVERY
from vertexsdk.testing.oracles import disagreements, expected

ROOT = Path(__file__).parents[2]
KILLS = 3


def written(
    rng: random.Random, directory: Path, files: int, lines: int
) -> list[tuple[str, int, int, float]]:
    """Change files, and the changes in them in order."""
    changes = []
    for k in range(files):
        text = ""
        for _ in range(lines):
            sign, a, b, x = (
                rng.choice("++-~"),
                rng.randrange(9),
                rng.randrange(9),
                rng.randint(1, 5),
            )
            text += f"{sign} {a} {b} {x}\n" + rng.choice(["", "", "# none\n", "bad\n"])
            changes.append((sign, a, b, float(x)))
        (directory / f"{k}.txt").write_text(text)
    return changes


def test_every_answer_is_right(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    rng = random.Random()
    changes = written(rng, inbox, 3, 70)
    command = [sys.executable, "-m", "tests.loops.stream_driver", f"lmdb://{tmp_path}/state"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

    def answers() -> list[Path]:
        return list(tmp_path.glob("out-*.csv"))

    for attempt in range(KILLS + 1):
        with subprocess.Popen(
            [*command, str(inbox)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as driver:  # fmt: skip
            assert driver.stdout is not None
            assert driver.stdout.readline() == "ready\n"
            if attempt == KILLS:
                assert driver.wait(60) == 0
                break
            wanted = len(answers()) + rng.randrange(9)
            end = time.monotonic() + 60
            while len(answers()) < wanted and driver.poll() is None:
                assert time.monotonic() < end
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.05))
            driver.kill()
    assert driver.returncode == 0
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
    assert len(answers()) == len(changes) // EVERY
