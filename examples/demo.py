"""The main job on a small real graph: which modules of Python's standard library import which.

    ./dev demo

Runs the built-in PageRank and the README's program from the command line, commits both to LMDB,
reads them back in another process, and draws the results. The files are in build/demo.
"""

from __future__ import annotations

import csv
import json
import math
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = Path("build", "demo")
EDGES = Path("examples", "data", "stdlib-imports.txt")
ORIGIN = "asyncio"
WIDTH = 40


def vertexsdk(*arguments: str) -> None:
    """Run the command line as a user would, and show what was typed."""
    print(f"\n$ vertexsdk {shlex.join(arguments)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "vertexsdk", *arguments], cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"demo: this command ended with status {done.returncode}")


def values(name: str) -> dict[str, float]:
    """The result of a run, by vertex, from its CSV file."""
    with (ROOT / OUT / f"{name}.csv").open(newline="") as file:
        return {row["vertex"]: float(row["value"]) for row in csv.DictReader(file)}


def bars(rows: Iterable[tuple[str, float]], form: str) -> None:
    """Draw a bar per row, the longest WIDTH characters wide."""
    drawn = list(rows)
    most = max(value for _, value in drawn)
    name_width = max(len(name) for name, _ in drawn)
    for name, value in drawn:
        print(f"  {name:>{name_width}} {'█' * max(1, round(WIDTH * value / most))} {value:{form}}")


def picture(rows: list[tuple[str, float]]) -> None:
    """Save the ranking as a PNG where matplotlib is installed (the `plot` extra)."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.barh([name for name, _ in reversed(rows)], [rank for _, rank in reversed(rows)])
    axes.set_xlabel("PageRank")
    figure.savefig(ROOT / OUT / "pagerank.png")
    print(f"\nThe same as a picture: {OUT / 'pagerank.png'}")


def statistics(name: str) -> str:
    """One line about a run, from its statistics file."""
    found = json.loads((ROOT / OUT / f"{name}.json").read_text())
    return (
        f"{name}: {found['iterations']} iterations, {found['messages']:,} messages, "
        f"{found['seconds']:.2f} s"
    )


def main() -> None:
    """Run, read back, show."""
    began = time.monotonic()
    shutil.rmtree(ROOT / OUT, ignore_errors=True)
    (ROOT / OUT).mkdir(parents=True)
    backend = f"lmdb:///{(ROOT / OUT / 'state').relative_to('/')}"
    common = ["--edges", str(EDGES), "--backend", backend]

    def files(name: str) -> list[str]:
        return ["--output", str(OUT / f"{name}.csv"), "--stats", str(OUT / f"{name}.json")]

    vertexsdk("run", "pagerank", *common, *files("pagerank"))
    program = "examples/distance.py:Distance"
    vertexsdk("run", program, *common, "--param", f"origin={ORIGIN}", *files("distance"))
    print("\nThe processes are gone; the results are in LMDB:")
    for loop in "pagerank", "distance":
        vertexsdk("query", loop, "--vertex", "sys", "--vertex", "codecs", "--backend", backend)

    ranks, steps = values("pagerank"), values("distance")
    top = sorted(ranks.items(), key=lambda item: (-item[1], item[0]))[:12]
    print(f"\nWhat the {len(ranks)} modules of the standard library lean on (PageRank):")
    bars(top, ".4f")
    reached = Counter(int(value) for value in steps.values() if math.isfinite(value))
    print(f"\n{sum(reached.values())} of them are imported by {ORIGIN}, so many imports away:")
    bars(((str(step), float(count)) for step, count in sorted(reached.items())), ".0f")
    picture(top)
    print(f"\n{statistics('pagerank')}; {statistics('distance')}")
    print(f"Done in {time.monotonic() - began:.0f} s. The files are in {OUT}.")


if __name__ == "__main__":
    main()
