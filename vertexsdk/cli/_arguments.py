"""What the command line takes: its commands, their arguments, and help that shows how to begin."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from vertexsdk.cli._state_command import add_commands
from vertexsdk.errors import InputError, excerpt

__all__ = ["parser"]

Command = Callable[[argparse.Namespace], int]

_OVERVIEW = """\
examples:
  vertexsdk run pagerank --edges links.txt --output ranks.csv
  vertexsdk run sssp --edges roads.csv --undirected --param origin=17
  vertexsdk run mine.py:MyVertex --edges links.parquet --backend lmdb:///data/state
  vertexsdk query pagerank --vertex 17 --vertex 42

exit status:
  0 done; 1 the run failed, what was committed stays readable; 2 bad arguments or input

VERTEXSDK_BACKEND names the store (a URL, or @FILE with one) where --backend does not: a password
does not belong on a command line. VERTEXSDK_TRACEBACK=1 shows where an error comes from,
VERTEXSDK_SPARK_LOG=WARN shows Spark's own log."""

_PROGRAMS = """\
built-in programs:
  sssp, bfs       shortest paths from --param origin=ID, by edge values or by number of edges
  pagerank        rank of every vertex
  wcc, scc        weakly and strongly connected components
  cdlp            communities by label propagation
  lcc             local clustering coefficient
  kcore, degree   core number; number of edges

an edge file has lines `source target [value]`, separated by blanks, tabs or commas, # starts a
comment; or it is Parquet or CSV with the columns source,target[,value]; a line has at most 1 MiB"""

_STREAM = """\
examples:
  vertexsdk stream sssp --edges base.txt --changes day1.txt --param origin=1 --output out.csv
  vertexsdk stream wcc --edges base.txt --changes 'changes/*.txt' --query-every 1000 --output w.csv
  vertexsdk stream pagerank --edges base.txt --changes inbox/ --follow --resume --budget-ms 500

a change file has lines in order: `+ source target [value]` adds an edge, or gives one that is
there the value; `- source target` removes it; `~ source target value` changes its value. A query
is answered after every N changes and after the last one; --output out.csv gives out-1.csv,
out-2.csv, ... and the answers are kept as the loops LOOP-1, LOOP-2, ..., the newest as LOOP

changes are in the store before the next ones are taken in: the same command with --resume goes on
after them, even if it was killed. With --follow the files may grow, and files may be moved into a
directory; `vertexsdk query LOOP` from another process reads what there is so far"""

_QUERY = """\
examples:
  vertexsdk query pagerank                          every vertex, a line each
  vertexsdk query pagerank --vertex 17 --json       one vertex, without reading the others
  vertexsdk query pagerank --output ranks.parquet   all, as a file"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line, by the same way as everything else."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")


def parser(run: Command, stream: Command, query: Command) -> argparse.ArgumentParser:
    """Return the parser of the whole command line; it raises InputError on bad arguments.

    What it parses has the chosen command's function under `command`.
    """
    from vertexsdk import __version__

    whole = _Parser(
        prog="vertexsdk",
        description="Iterative computation on graphs, on Apache Spark.",
        epilog=_OVERVIEW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"vertexsdk {__version__}")
    commands = whole.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, what, more, add, command in (
        ("run", "run a program over a graph", _PROGRAMS, _run_arguments, run),
        ("stream", "answer queries on a changing graph", _STREAM, _stream_arguments, stream),
        ("query", "read the results of a loop", _QUERY, _query_arguments, query),
    ):
        one = commands.add_parser(
            name,
            help=what,
            description=what[0].upper() + what[1:] + ".",
            epilog=more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add(one)
        one.set_defaults(command=command)
    add_commands(commands)
    return whole


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{excerpt(text)} is no whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small; at least {least}")
        return value

    return number


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{excerpt(text)} is no number of seconds") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} must be more than zero")
    return value


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{excerpt(text)} is no number") from None
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} must be zero or more")
    return value


def _common(add: Callable[..., object]) -> None:
    add("--backend", metavar="URL",
        help="lmdb:///path (default: ./vertexsdk-state), memory://, redis://, postgresql://; "
        "or @FILE with it, so that ps shows no password")  # fmt: skip
    add("--master", metavar="URL", help="Spark master (default: all cores of this machine)")
    add("--verbose", "-v", action="store_true", help="log what is going on")


def _results(add: Callable[..., object]) -> None:
    add("--trusted", action="store_true",
        help="unpickle Python objects in the store, which can run code")  # fmt: skip
    add("--output", metavar="FILE", help="write vertex,value to a .csv or .parquet file")
    add("--field", metavar="NAME", help="the state field to show (default: its class's result)")


def _run_arguments(command: argparse.ArgumentParser) -> None:
    graph = _program_and_graph(command)
    graph("--multi", action="store_true", help="keep duplicate edges, not only the last of each")
    _how(command)


def _stream_arguments(command: argparse.ArgumentParser) -> None:
    _program_and_graph(command)
    add = command.add_argument_group("the changes").add_argument
    add("--changes", metavar="FILE", required=True, nargs="+", action="extend",
        help="files, directories or globs, in order")  # fmt: skip
    add("--query-every", type=_at_least(1), metavar="N", help="changes (default: at the end only)")
    add("--follow", action="store_true", help="wait for more, until Ctrl-C")
    add("--idle", type=_seconds, metavar="S", help="end --follow when nothing came for S seconds")
    add("--resume", action="store_true", help="go on where the loop in the store was left")
    add("--time-column", type=_at_least(1), metavar="K", default=0,
        help="field K of a line is the time; those that run backwards are counted")  # fmt: skip
    add("--strict", action="store_true",
        help="refuse bad lines, changes of absent edges, times that run backwards")  # fmt: skip
    add("--keep-answers", type=_all_or_number, default=100, metavar="N",
        help="newest answers that stay in the store; or all (default: 100)")  # fmt: skip
    add("--budget-iterations", type=_at_least(1), metavar="N", help="iterations after each batch")
    add("--budget-ms", type=_at_least(1), metavar="N",
        help="at most N milliseconds of them (default: none at all)")  # fmt: skip
    _how(command)


def _program_and_graph(command: argparse.ArgumentParser) -> Callable[..., object]:
    command.add_argument(
        "program", metavar="PROGRAM", help="a built-in's name, module:Class, or path.py:Class"
    )
    add = command.add_argument_group("the graph").add_argument
    add("--edges", metavar="FILE", required=True, action="append", help="file, directory or glob")
    add("--vertices", metavar="FILE", help="one vertex id per line, and perhaps its class")
    add("--undirected", action="store_true", help="each edge stands for both directions")
    add("--format", choices=("text", "csv", "parquet"), help="of the edge file (default: look)")
    return add


def _how(command: argparse.ArgumentParser) -> None:
    add = command.add_argument_group("the run").add_argument
    add("--param", metavar="K=V", action="append", default=[], help="a parameter of the program")
    add("--max-iterations", type=_at_least(0), metavar="N", help="stop after N (default: its own)")
    add("--tolerance", type=_tolerance, metavar="X", help="do not send on smaller changes")
    add("--engine", choices=("spark", "local", "shuffle"), default="spark",
        help="on Spark; in this process, without Spark or Java; on Spark, all messages by its "
        "shuffle (default: spark)")  # fmt: skip
    add("--partitions", type=_at_least(1), metavar="N", help="default: one per executor")
    add("--partitioner", choices=("hash", "ldg", "fennel", "metis"), default="hash",
        help="what places vertices; all but hash keep neighbours together")  # fmt: skip
    add("--delay-bound", type=_bound, default=1, metavar="B",
        help="how far partitions may be apart, plus one; or auto (default: 1)")  # fmt: skip
    add(
        "--compiled",
        choices=("auto", "require", "no"),
        default="auto",
        help="interpret what does not compile, refuse it, or interpret all (default: auto)",
    )
    add = command.add_argument_group("results").add_argument
    add("--loop", metavar="NAME", help="its name in the store (default: the program's)")
    add("--commit-every", type=_at_least(1), metavar="N", help="commit every N iterations too")
    _results(add)
    add("--stats", metavar="FILE", help="write iterations, messages, seconds and more as JSON")
    _common(command.add_argument_group("where").add_argument)


def _all_or_number(text: str) -> int | None:
    return None if text == "all" else _at_least(1)(text)


def _bound(text: str) -> int | str:
    return text if text == "auto" else _at_least(1)(text)


def _query_arguments(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("loop", metavar="LOOP", help="name of the loop: the program's, unless run with --loop")
    add("--vertex", metavar="ID", action="append", default=[], help="read only this one; repeat")
    add("--at", type=_at_least(0), metavar="I", help="the version of iteration I or the one before")
    add("--json", action="store_true", help="print JSON lines")
    _results(add)
    _common(add)
