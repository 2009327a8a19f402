"""A stream killed at any instants: every answer is there, under its number, and right."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.stream.stream_driver import EVERY
from vertexsdk.testing.oracles import disagreements, expected

ROOT = Path(__file__).parents[2]
KILLS = 4


def written(directory: Path, files: int, lines: int) -> list[tuple[str, int, int, float]]:
    """Change files, and the changes in them in order."""
    rng = random.Random()
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
    changes = written(inbox, 3, 70)
    command = [sys.executable, "-m", "tests.stream.stream_driver", f"lmdb://{tmp_path}/state"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    kills = 0
    for attempt in range(40):
        with subprocess.Popen(
            [*command, str(inbox)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as driver:  # fmt: skip
            assert driver.stdout is not None
            assert driver.stdout.readline() == "ready\n"
            try:
                patience = random.uniform(0, 0.5) if attempt < KILLS else 60
                assert driver.wait(patience) == 0
                break
            except subprocess.TimeoutExpired:
                driver.kill()
                kills += 1
    assert kills > 0
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
    assert len(list(tmp_path.glob("out-*.csv"))) == len(changes) // EVERY
