"""The main job on a small real graph: which modules of Python's standard library import which.

    ./dev demo

Ranks the modules on Spark, from the command line, and reads the result back in another process.
Then changes of the graph arrive, and the README's program answers exactly after each batch of them;
a what-if, and a resume from the store, come last. The files are in build/demo.
"""

from __future__ import annotations

import csv
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from distance import Distance

from vertexsdk import Graph, MainLoop, Result, inf

ROOT = Path(__file__).resolve().parents[1]
OUT = Path("build", "demo")
EDGES = Path("examples", "data", "stdlib-imports.txt")
ORIGIN = "asyncio"
BATCHES = (1, 1, 1, 1, 10, 10, 100, 100, 1)
WIDTH = 40

Import = tuple[str, str]  # who imports, and what
Change = tuple[str, str, str]


def vertexsdk(*arguments: str) -> None:
    """Run the command line as a user would, and show what was typed."""
    print(f"\n$ vertexsdk {shlex.join(arguments)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "vertexsdk", *arguments], cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"demo: this command ended with status {done.returncode}")


def bars(rows: Iterable[tuple[str, float]], form: str) -> None:
    """Draw a bar per row, the longest WIDTH characters wide."""
    drawn = list(rows)
    most = max(value for _, value in drawn)
    name_width = max(len(name) for name, _ in drawn)
    for name, value in drawn:
        print(f"  {name:>{name_width}} {'█' * max(1, round(WIDTH * value / most))} {value:{form}}")


def show_ranks() -> None:
    """Draw the largest ranks, from the CSV file of the run."""
    with (ROOT / OUT / "pagerank.csv").open(newline="") as file:
        ranks = {row["vertex"]: float(row["value"]) for row in csv.DictReader(file)}
    top = sorted(ranks.items(), key=lambda item: (-item[1], item[0]))[:10]
    print(f"\nWhat the {len(ranks)} modules of the standard library lean on (PageRank):")
    bars(top, ".4f")


def from_scratch(imports: set[Import]) -> dict[str, float]:
    """The distances that an answer must equal, by breadth-first search in plain Python."""
    targets = defaultdict(list)
    for source, target in imports:
        targets[source].append(target)
    steps, ring = {ORIGIN: 0.0}, [ORIGIN]
    for module in ring:
        for target in targets[module]:
            if target not in steps:
                steps[target] = steps[module] + 1
                ring.append(target)
    return steps


def checked(answer: Result, imports: set[Import]) -> dict[str, float]:
    """The modules that an answer reaches; the demo ends if they are not those from scratch."""
    with answer:
        steps = {module: x for module, x in answer.to_dict().items() if x < inf}
    if steps != from_scratch(imports):
        sys.exit("demo: this answer is wrong")
    return steps


def batch(imports: set[Import], size: int, rng: random.Random) -> list[Change]:
    """Draw changes, one of asyncio's own modules or many of all; `imports` follows."""
    modules = sorted({module for pair in imports for module in pair})
    changes = []
    for _ in range(size):
        if rng.random() < 0.5:
            near = [pair for pair in imports if size > 1 or pair[0].startswith(ORIGIN)]
            source, target = rng.choice(sorted(near))
            imports.remove((source, target))
            changes.append(("-", source, target))
        else:
            source, target = (ORIGIN if size == 1 else rng.choice(modules)), rng.choice(modules)
            imports.add((source, target))
            changes.append(("+", source, target))
    return changes


def row(what: str, seconds: float, steps: dict[str, float]) -> None:
    """Print what was done, how long it took, and what came of it."""
    mean = sum(steps.values()) / len(steps)
    reached = f"{ORIGIN} reaches {len(steps):3} modules, {mean:.2f} imports away on average"
    print(f"  {what:28}{1000 * seconds:7.1f} ms   {reached}")


def changing(backend: str) -> None:
    """A main loop over the same graph, held in this process."""
    clock = time.perf_counter
    lines = [line.split() for line in (ROOT / EDGES).read_text().splitlines() if line[0] != "#"]
    imports = {(source, target) for source, target in lines}
    store = {"backend": backend, "loop": "live"}
    print(
        f"\nThe imports change now. Distance from {ORIGIN}, examples/distance.py, kept up to date:"
    )
    began = clock()
    graph = Graph.read(str(ROOT / EDGES))
    with MainLoop(Distance, graph, params={"origin": ORIGIN}, **store) as main:
        answer = main.query()
        row("load, compile, first answer", clock() - began, checked(answer, imports))
        rng, seconds = random.Random(3), []
        for size in BATCHES:
            changes = batch(imports, size, rng)
            began = clock()
            main.ingest(changes)
            answer = main.query()
            seconds.append(clock() - began)
            row(f"{size:3} changes, exact answer", seconds[-1], checked(answer, imports))
            print(f"{'':43}{' '.join(changes[0])}{', ...' * (size > 1)}")
        print(f"  From changes to the answer, median: {1000 * median(seconds):.1f} ms")

        without = ("-", ORIGIN, "asyncio.base_events")
        print(f"\nWhat if: {' '.join(without)}? A branch of the loop answers, and the loop stays:")
        began = clock()
        with main.fork("what-if") as branch:
            branch.apply([without])
            answer = branch.start().result()
            row(
                "fork, change, exact answer",
                clock() - began,
                checked(answer, imports - {without[1:]}),
            )
        main.snapshot()

    print("\nThe loop has ended. It is resumed from LMDB, as after a crash:")
    began = clock()
    with MainLoop.resume(None, Distance, **store) as main:
        answer = main.query()
        taken = clock() - began
        steps = checked(answer, imports)
        row("resume, exact answer", taken, steps)
    print("\nSo many modules, so many imports away:")
    reached = Counter(int(value) for value in steps.values())
    bars(((str(step), float(count)) for step, count in sorted(reached.items())), ".0f")


def main() -> None:
    """Run, read back, change."""
    began = time.monotonic()
    shutil.rmtree(ROOT / OUT, ignore_errors=True)
    (ROOT / OUT).mkdir(parents=True)
    backend = f"lmdb://{ROOT / OUT / 'state'}"
    ranks = ["--output", str(OUT / "pagerank.csv")]
    vertexsdk("run", "pagerank", "--edges", str(EDGES), "--backend", backend, *ranks)
    print("\nSpark has ended; the result is in LMDB, for any process:")
    vertexsdk("query", "pagerank", "--vertex", "sys", "--vertex", "codecs", "--backend", backend)
    show_ranks()
    changing(backend)
    print(f"\nEvery answer equals a search from scratch. The files are in {OUT}.")
    print(f"Done in {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
