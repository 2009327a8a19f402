"""``python -m benchmarks``: every suite in turn, the page of their results, and what they came to.

Each runs in a process of its own and may fail without ending the others. The exit status is the
worst of theirs: 0, 1 when an answer is wrong or a suite failed, 2 for bad arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks import processes
from benchmarks.options import default_cache, say
from benchmarks.page import write
from benchmarks.registry import SUITES, TOOLS, Suite, fit_in
from benchmarks.summary import Ran, summary


def main(arguments: list[str]) -> int:
    """Run the suites, write the page, print what they came to."""
    options = _parser().parse_args(arguments)
    for file in filter(None, (options.edges, options.changes)):
        if not Path(file).is_file():
            print(f"there is no file {file}", file=sys.stderr)
            return 2
    if options.scale is None and not options.edges and not options.quick:
        options.scale = fit_in(processes.available(), len(os.sched_getaffinity(0)))
        say(f"R-MAT scale {options.scale} fits this machine (--scale takes another)")
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    chosen = _chosen(options)
    if not chosen:
        print("none of the suites takes these files", file=sys.stderr)
        return 2
    began = time.monotonic()
    limit = options.time_limit or (_QUICK_LIMIT if options.quick else _LIMIT)
    ran = []
    for at, suite in enumerate(chosen):
        say(f"[{at + 1}/{len(chosen)}] {suite.name}, {_clock(time.monotonic() - began)} so far")
        ran.append(_run(suite, arguments_for(suite, options), out, limit))
        say(f"[{at + 1}/{len(chosen)}] {suite.name}: {ran[-1].said} in {_clock(ran[-1].seconds)}")
    try:
        page: Path | None = write(out, out / "index.html")
    except (ImportError, OSError, ValueError) as error:
        print(f"no page: {error}", file=sys.stderr)
        page = None
    print(summary(ran, page))
    return max([one.status for one in ran] + [int(page is None)])


_LIMIT, _QUICK_LIMIT = 4 * 3600.0, 240.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=f"One alone: python -m benchmarks {{{','.join([*SUITES, *TOOLS])}}} ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    named = ",".join(s.name for s in SUITES.values() if s.always)
    add("--suites", type=_suites, help=f"only these of {','.join(SUITES)} (default: {named})")
    add("--quick", action="store_true", help="small graphs and few runs: about seven minutes")
    add("--scale", type=int, choices=range(4, 27), metavar="4..26", help="default: what fits here")
    add("--edges", metavar="FILE", help="an edge file instead of R-MAT, where a suite takes one")
    add("--changes", metavar="FILE", help="a change file, where a suite takes one")
    limits = f"seconds for one suite ({_LIMIT:g}; quick: {_QUICK_LIMIT:g})"
    add("--time-limit", type=float, help=limits)
    add("--out", metavar="DIR", default="benchmarks/results", help="where tables and page go")
    add("--cache", metavar="DIR", default=default_cache(), help="where graphs are kept")
    return parser


def _suites(text: str) -> list[Suite]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in SUITES:
            raise argparse.ArgumentTypeError(f"no suite {name!r}; choose from {','.join(SUITES)}")
    if not names:
        raise argparse.ArgumentTypeError("names no suite")
    return [SUITES[name] for name in dict.fromkeys(names)]


def _chosen(options: argparse.Namespace) -> list[Suite]:
    """The suites to run: those named, else all which can do something with the files given."""
    if options.suites:
        named: list[Suite] = options.suites
        return named
    files = [f"--{name}" for name in ("edges", "changes") if getattr(options, name)]
    every = [suite for suite in SUITES.values() if suite.always]
    for suite in every:
        if files and not set(files) & set(suite.takes):
            say(f"{suite.name} takes no {' or '.join(files)}: left out")
    return [suite for suite in every if not files or set(files) & set(suite.takes)]


def arguments_for(suite: Suite, options: argparse.Namespace) -> list[str]:
    """What a suite is called with: what is quick for it, then those of our options it takes."""
    given = list(suite.quick()) if options.quick else []
    if options.scale is not None and "--scale" in suite.takes:
        given += suite.scaled(options.scale)
    for name in ("edges", "changes"):
        value = getattr(options, name)
        if value is not None and f"--{name}" in suite.takes:
            given += [f"--{name}", str(value)]
    return [*given, "--out", options.out, "--cache", options.cache]


def _run(suite: Suite, arguments: list[str], out: Path, limit: float) -> Ran:
    before, began = _files(out), time.monotonic()
    # What it prints is in its Markdown file; what it says on standard error goes on to ours.
    status = processes.run_until(command_of(suite, arguments), limit)
    after = _files(out)
    written = sorted(path for path, when in after.items() if before.get(path) != when)
    return Ran(suite.name, status, time.monotonic() - began, limit, written)


def command_of(suite: Suite, arguments: list[str]) -> list[str]:
    """What starts a suite."""
    return [sys.executable, "-m", "benchmarks", suite.name, *arguments]


def _files(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.iterdir() if path.is_file()}


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"
