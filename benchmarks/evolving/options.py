"""The options of the suite ``evolving``; the soak has some of them."""

from __future__ import annotations

import argparse

from benchmarks.evolving import instants
from benchmarks.evolving.sizes import Sizes
from benchmarks.options import add_common, names, parts, scales
from benchmarks.streaming import SYSTEMS

PARTS = {
    "a": ("a-shortest_paths", "a-components"),
    "b": ("b-pagerank",),
    "c": ("c-shortest_paths", "c-shortest_paths-batch", "c-pagerank", "c-pagerank-batch"),
    "d": ("d-shortest_paths",),
    "e": ("e-shortest_paths",),
    "f": ("f-shortest_paths",),
}


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The options of the suite."""
    plain, every = Sizes(), [case for cases in PARTS.values() for case in cases]
    read = parts(PARTS, every)
    parser = argparse.ArgumentParser(prog="python -m benchmarks evolving", description=description)
    add = parser.add_argument
    add("--parts", type=read, default=read("a,b,c,d,e,f"), help="a,b,c,d,e,f or case names")
    add_sizes(parser)
    add("--queries", type=int, default=plain.queries, help="parts a and b")
    add("--every", dest="changes", type=int, default=plain.changes, help="changes per query there")
    add("--edges", dest="edges_file", default="", metavar="FILE", help="instead of R-MAT")
    add("--changes", dest="changes_files", nargs="+", default=(), metavar="FILE", help="of those")
    add("--singles", type=int, default=plain.singles, help="changes of one edge, part e")
    add("--shares", type=_shares, default=plain.shares, help="of the edges, part c")
    add("--seconds", type=float, default=plain.seconds, help="for a case once it is warm")
    add(
        "--systems",
        type=names(instants.SYSTEMS, empty=True),
        default=tuple(instants.SYSTEMS),
        help="from scratch; may be ''",
    )
    add(
        "--peers",
        type=names(SYSTEMS, empty=True),
        default=tuple(SYSTEMS),
        help="for changing graphs; may be ''",
    )
    add("--peer-scales", type=scales, help="of R-MAT, tried until one does not finish: 12,14,16")
    add("--peer-time-limit", type=float, default=600, help="seconds for one case of a peer")
    add_common(parser, 300)
    return parser


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """The options that the soak has too."""
    plain, add = Sizes(), parser.add_argument
    add("--scale", type=int, choices=range(4, 27), default=plain.scale, metavar="4..26")
    add("--batch", type=int, default=plain.batch, help="changes that are ingested at once")
    add("--batch-seconds", type=float, default=plain.batch_seconds, help="of approximation, part c")
    add("--warm", type=int, default=plain.warm, help="rounds that are not counted")


def _shares(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in text.split(",") if word)
    except ValueError:
        found = ()
    if not found or not all(0 < share <= 0.5 for share in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give shares of the edges, as 0.01,0.2")
    return found
