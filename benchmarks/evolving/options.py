"""The options of the suite ``evolving``; the soak has some of them."""

from __future__ import annotations

import argparse
import os

from benchmarks.evolving import instants
from benchmarks.evolving.sizes import Sizes
from benchmarks.streaming import SYSTEMS
from benchmarks.suites.batch import default_cache

PARTS = {
    "a": ("a-shortest_paths", "a-components"),
    "b": ("b-pagerank",),
    "c": (
        "c-shortest_paths",
        "c-shortest_paths-batch",
        "c-pagerank",
        "c-pagerank-batch",
    ),
    "d": ("d-shortest_paths",),
    "e": ("e-shortest_paths",),
    "f": ("f-shortest_paths",),
}


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The options of the suite."""
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks evolving", description=description)
    add = parser.add_argument
    add("--parts", type=_cases, default=_cases("a,b,c,d,e,f"), help="a,b,c,d,e,f or case names")
    add_sizes(parser)
    add("--queries", type=int, default=plain.queries, help="parts a and b")
    add("--every", dest="changes", type=int, default=plain.changes, help="changes per query there")
    add("--edges", dest="edges_file", default="", metavar="FILE", help="instead of R-MAT")
    add("--changes", dest="changes_files", nargs="+", default=(), metavar="FILE", help="of those")
    add("--singles", type=int, default=plain.singles, help="changes of one edge, part e")
    add("--shares", type=_shares, default=plain.shares, help="of the edges, part c")
    add("--seconds", type=float, default=plain.seconds, help="for a case once it is warm")
    add("--time-limit", type=float, default=300, help="seconds for the process of a case")
    add("--systems", type=_systems, default=list(instants.SYSTEMS), help="from scratch; may be ''")
    add("--peers", type=_peers, default=list(SYSTEMS), help="for changing graphs; may be ''")
    add("--peer-scales", type=_scales, help="of R-MAT, tried until one does not finish: 12,14,16")
    add("--peer-time-limit", type=float, default=600, help="seconds for one case of a peer")
    return parser


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """The options that the soak has too."""
    plain, add = Sizes(), parser.add_argument
    add("--scale", type=int, choices=range(4, 27), default=plain.scale, metavar="4..26")
    add("--batch", type=int, default=plain.batch, help="changes that are ingested at once")
    add("--batch-seconds", type=float, default=plain.batch_seconds, help="of approximation, part c")
    add("--warm", type=int, default=plain.warm, help="rounds that are not counted")
    add("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores to use")
    add("--memory", type=float, help="GB that a case may use (default: 4/5 of what is free)")
    add("--out", metavar="DIR", default="benchmarks/results", help="where the tables go")
    add("--cache", metavar="DIR", default=default_cache(), help="where graphs are kept")


def sizes_of(options: argparse.Namespace) -> Sizes:
    """What the options say; what they have not is as it is by default."""
    return Sizes(
        **{name: getattr(options, name) for name in Sizes.__slots__ if hasattr(options, name)}
    )


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _cases(text: str) -> list[str]:
    every = [case for cases in PARTS.values() for case in cases]
    found: list[str] = []
    for name in _names(text):
        if name not in PARTS and name not in every:
            known = ", ".join([*PARTS, *every])
            raise argparse.ArgumentTypeError(f"no part {name!r}; choose from {known}")
        found += PARTS.get(name, (name,))
    return found


def _systems(text: str) -> list[str]:
    found = _names(text)
    if not set(found) <= set(instants.SYSTEMS):
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {','.join(instants.SYSTEMS)}")
    return found


def _peers(text: str) -> list[str]:
    found = _names(text)
    if not set(found) <= set(SYSTEMS):
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {','.join(SYSTEMS)}")
    return found


def _scales(text: str) -> list[int]:
    found = [int(word) for word in _names(text) if word.isdecimal()]
    if not found or len(found) != len(_names(text)) or not all(4 <= s <= 26 for s in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give scales from 4 to 26, as 12,14,16")
    return sorted(found)


def _shares(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in _names(text))
    except ValueError:
        found = ()
    if not found or not all(0 < share <= 0.5 for share in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give shares of the edges, as 0.01,0.2")
    return found
