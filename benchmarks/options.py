"""What the command lines of the suites have in common, and what each does with it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import document, processes
from benchmarks.document import Document
from benchmarks.processes import Limits
from benchmarks.runner import CaseResult, run_case

RESULTS = "benchmarks/results"
Value = TypeVar("Value")


def add_common(
    parser: argparse.ArgumentParser, time_limit: float, of: str = "the process of a case"
) -> None:
    """Limits, cores, and where results and graphs go."""
    add = parser.add_argument
    add("--time-limit", type=float, default=time_limit, help=f"seconds for {of}")
    add("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores to use")
    add("--memory", type=float, help="GB that its processes may use (default: 4/5 of the free)")
    add_folders(parser)


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Where results and graphs go."""
    parser.add_argument("--out", metavar="DIR", default=RESULTS, help="where the tables go")
    parser.add_argument(
        "--cache", metavar="DIR", default=default_cache(), help="where graphs are kept"
    )


def default_cache() -> str:
    """Where graphs are kept if the user does not say."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "vertexsdk-benchmarks")


def cache_of(options: argparse.Namespace) -> Path:
    """The folder of graphs, made if it is not there."""
    cache = Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def memory_of(options: argparse.Namespace) -> int:
    """Bytes that a system or case may use."""
    return int(options.memory * 10**9) if options.memory else processes.available() * 4 // 5


def limits_of(options: argparse.Namespace) -> Limits:
    """For one process."""
    return Limits(options.time_limit, memory_of(options))


def sizes_of(kind: Any, options: argparse.Namespace) -> Any:
    """The options as a dataclass; what they do not name is as it is by default."""
    return kind(
        **{
            name: getattr(options, name)
            for name in [f.name for f in fields(kind)]
            if hasattr(options, name)
        }
    )


def run_cases(
    suite: str, cases: Iterable[str], sizes: Any, options: argparse.Namespace
) -> dict[str, CaseResult]:
    """Run the cases of a suite one after another, each in a process of its own."""
    limits, cache, module = limits_of(options), cache_of(options), f"benchmarks.suites.{suite}"
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        return {
            case: run_case(module, case, sizes, cache, Path(scratch) / case, limits, say)
            for case in cases
        }


def publish(
    report: Document, results: Mapping[str, Any], options: argparse.Namespace, stem: str
) -> None:
    """Write the document, and print it."""
    for path in document.save(report, results, Path(options.out), stem):
        say(f"written: {path}")
    print(document.markdown(report))


def quotable(arguments: list[str]) -> list[str]:
    """The arguments for a reader: not where this machine keeps its files."""
    return [os.path.basename(word) if os.path.isabs(word) else word for word in arguments]


def say(line: str) -> None:
    """Tell how far the run is, on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def names(known: Iterable[str], empty: bool = False) -> Callable[[str], tuple[str, ...]]:
    """Reads names, separated by commas, all of which must be known."""
    return parts({}, known, empty)


def parts(
    groups: Mapping[str, Iterable[str]], known: Iterable[str], empty: bool = False
) -> Callable[[str], tuple[str, ...]]:
    """Reads names of cases, or of groups of them. ``empty``: there may be none."""
    choices = [*groups, *known]

    def read(text: str) -> tuple[str, ...]:
        words = [word for word in text.split(",") if word]
        unknown = [word for word in words if word not in choices]
        if unknown or not (words or empty):
            what = ", ".join(map(repr, unknown)) or repr(text)
            raise argparse.ArgumentTypeError(f"unknown {what}; choose from {', '.join(choices)}")
        return tuple(dict.fromkeys(name for word in words for name in groups.get(word, (word,))))

    return read


def file(text: str) -> str:
    """Reads the name of a file, which may be relative; empty where there is none."""
    return text and os.path.abspath(text)


def numbers(text: str) -> tuple[int, ...]:
    """Reads 1,2,4."""
    words = [word for word in text.split(",") if word]
    if not words or not all(word.isdigit() and int(word) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers of at least 1, as 1,2,4")
    return tuple(sorted({int(word) for word in words}))


def floats(text: str, most: float = 3600.0) -> tuple[float, ...]:
    """Reads 0.5,1,3."""
    try:
        read = sorted({float(word) for word in text.split(",")})
    except ValueError:
        read = []
    if not read or not 0 < read[0] <= read[-1] <= most:
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers up to {most:g}, as 0.5,1,3")
    return tuple(read)


def scales(text: str) -> tuple[int, ...]:
    """Reads R-MAT scales: 20, 14..20, or 14,16."""
    first, dots, last = text.partition("..")
    if dots and first.isdigit() and last.isdigit():
        text = ",".join(map(str, range(int(first), int(last) + 1)))
    words = [int(word) for word in text.split(",") if word.isdigit()]
    if not words or len(words) != len(text.split(",")) or not 4 <= min(words) <= max(words) <= 26:
        raise argparse.ArgumentTypeError(f"{text!r}: give scales from 4 to 26, as 14..20 or 14,16")
    return tuple(sorted(words))


_READ: dict[str, Callable[[str], Any]] = {
    "int": int, "float": float, "str": str, "tuple[int, ...]": numbers, "tuple[float, ...]": floats,
}  # fmt: skip


def option(
    default: Value, text: str, read: Callable[[str], Any] | None = None, flag: str = "",
    nargs: str | None = None,
) -> Value:  # fmt: skip
    """A field of a suite's sizes that has an option of its name on the command line.

    Args:
        text: its help.
        read: reads the option's value; by default it is read as the field's type.
        flag: the option's name, if it is not the field's.
        nargs: as `argparse` has it.
    """
    return field(
        default=default, metadata={"help": text, "read": read, "flag": flag, "nargs": nargs}
    )


def add_sizes(parser: argparse.ArgumentParser, sizes: Any) -> None:
    """An option for each field of the dataclass that was made by `option`."""
    for each in fields(sizes):
        if each.metadata:
            scale = each.name == "scale" and not each.metadata["read"]
            parser.add_argument(
                each.metadata["flag"] or f"--{each.name.replace('_', '-')}", dest=each.name,
                default=each.default, type=each.metadata["read"] or _READ[str(each.type)],
                help=each.metadata["help"], nargs=each.metadata["nargs"],
                choices=range(4, 27) if scale else None,
                metavar="4..26" if scale else each.name.upper(),
            )  # fmt: skip
