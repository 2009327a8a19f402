"""``python -m benchmarks check``: the regression guard.

Measures ours beside a peer in the same run, and compares the ratios with those stored in
benchmarks/guard.json. Exit status 1: an answer is wrong, or a ratio is beyond its margin, which is
wide; 2: bad arguments, or nothing stored.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine, processes
from benchmarks.guard.comparing import Comparison, better, compared, failed, read, stored_as
from benchmarks.options import default_cache, say

STORED = Path(__file__).parent.parent / "guard.json"


def main(arguments: list[str]) -> int:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks check", description=__doc__)
    add = parser.add_argument
    add("--store", action="store_true", help="store what is found, in place of comparing")
    add("--file", metavar="FILE", default=str(STORED), help="the stored ratios")
    add("--time-limit", type=float, default=300, help="seconds for all of it (300)")
    add("--cache", metavar="DIR", default=default_cache(), help="where graphs are kept")
    options = parser.parse_args(arguments)
    path = Path(options.file)
    try:
        stored = read(path)
    except ValueError as error:
        if not options.store:
            print(f"check: {error}", file=sys.stderr)
            return 2
        stored = {}
    began = time.monotonic()
    found = measured(Path(options.cache), options.time_limit)
    if not options.store and failed(found, stored):
        say("beyond a margin: measured once more, as the machine may have been busy")
        found = better(found, measured(Path(options.cache), options.time_limit))
    print(compared(found, stored))
    say(f"measured in {time.monotonic() - began:.0f} s")
    broken = [f"{each.title}: {each.problem}" for each in found if each.problem]
    if options.store:
        if not broken:
            new = stored_as(found, stored, machine.describe())
            path.write_text(json.dumps(new, indent=1) + "\n")
            say(f"stored: {path.name}")
    else:
        broken = failed(found, stored)
    for reason in broken:
        print(f"check: {reason}", file=sys.stderr)
    return 1 if broken else 0


def measured(cache: Path, limit: float) -> list[Comparison]:
    """What `measuring` finds, in a process of its own; ended when its time is up."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vertexsdk-check-") as scratch:
        result = Path(scratch) / "result.json"
        command = [sys.executable, "-m", "benchmarks.guard.measuring"]
        status = processes.run_until([*command, str(cache), scratch, str(result)], limit)
        found = json.loads(result.read_text()) if result.exists() else []
    lines = [Comparison(**each) for each in found]
    if status != 0:
        why = f"not done in {limit:g} s" if status is None else f"ended with status {status}"
        lines.append(Comparison("the rest", "–", problem=f"the measuring process {why}"))
    return lines
