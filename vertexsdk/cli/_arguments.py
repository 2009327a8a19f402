"""The commands of the command line, their arguments, and help with examples."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NoReturn

from vertexsdk.cli.state_command import add_commands
from vertexsdk.errors import InputError, excerpt
from vertexsdk.program.algebra import VertexId
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import MISSING

Command = Callable[[argparse.Namespace], int]

_OVERVIEW = """\
examples:
  vertexsdk run pagerank --edges links.txt --output ranks.csv
  vertexsdk run sssp --edges roads.csv --undirected --param origin=17
  vertexsdk run pagerank --help                     the parameters of a program
  vertexsdk run mine.py:MyVertex --edges links.parquet --backend lmdb:///data/state
  vertexsdk query pagerank --vertex 17 --vertex 42

exit status:
  0 done; 1 the run failed, what was committed stays readable; 2 bad arguments or input

VERTEXSDK_BACKEND is the default of --backend (a URL, or @FILE for a file that contains it): do not
write a password on the command line. VERTEXSDK_TRACEBACK=1 shows the traceback of an error,
VERTEXSDK_SPARK_LOG=WARN shows Spark's own log."""

_PROGRAMS = """\
`vertexsdk algorithms` lists the built-in programs; `vertexsdk run PROGRAM --help` shows the
parameters of one, also of your own

an edge file has lines `source target [value]`, separated by blanks, tabs or commas, # starts a
comment; or it is Parquet or CSV with the columns source,target[,value]; a line has at most 1 MiB"""

_STREAM = """\
examples:
  vertexsdk stream sssp --edges base.txt --changes day1.txt --param origin=1 --output out.csv
  vertexsdk stream wcc --edges base.txt --changes 'changes/*.txt' --query-every 1000 --output w.csv
  vertexsdk stream pagerank --edges base.txt --changes inbox/ --follow --resume --budget-ms 500

a change file has one change per line: `+ source target [value]` adds an edge, or sets the value of
an existing one; `- source target` removes it; `~ source target value` changes its value. vertexsdk
answers a query after every N changes and after the last one: --output out.csv writes out-1.csv,
out-2.csv, ..., and the store keeps the answers as LOOP-1, LOOP-2, ..., the newest as LOOP

the store has each batch of changes before the next one is read: the same command with --resume
continues after the last one, even if it was killed. With --follow the files may grow, and files may
be moved into a directory; from another process, `vertexsdk query LOOP` reads the newest answer, and
`vertexsdk query LOOP --exact` has this one compute the answer for that instant"""

_QUERY = """\
examples:
  vertexsdk query pagerank                          every vertex, a line each
  vertexsdk query pagerank --vertex 17 --json       one vertex, without reading the others
  vertexsdk query pagerank --output ranks.parquet   all, as a file
  vertexsdk query WordCount --key be                one row of a stateful class
  vertexsdk query pagerank --exact --vertex 17      as of now, computed by its `vertexsdk stream`
  vertexsdk query pagerank --exact --at 40          for the graph of version 40, computed here"""


_SERVE = """\
examples:
  vertexsdk serve wc.py:WordCount --feed 'add=logs/*.txt' --follow --resume
  vertexsdk serve wc.py:WordCount --partitions 2 --snapshot-every 10s --backend redis://host

it takes calls from `vertexsdk call` and `StatefulClient` until Ctrl-C or SIGTERM; then it takes a
snapshot. A call that was answered, and how far the files are read, is in the store: the same
command with --resume continues after it, even if it was killed. A method with one str is fed with
the lines of text files; others with CSV or Parquet files that have a column for each parameter"""

_CALL = """\
examples:
  vertexsdk call WordCount count be
  vertexsdk call WordCount count --file words.csv --output counts.csv

the arguments are those of the method, in order; -- goes before one that begins with -"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are shown in one line, like all others."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")


def parser(
    run: Command, stream: Command, query: Command, serve: Command, call: Command
) -> argparse.ArgumentParser:
    """Return the parser of the command line, which raises InputError for bad arguments.

    It stores the function of the chosen command as `command`.
    """
    from vertexsdk import __version__

    parser = _Parser(
        prog="vertexsdk",
        description="Iterative computation on graphs, on Apache Spark.",
        epilog=_OVERVIEW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"vertexsdk {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, what, more, add, command in (
        ("run", "run a program over a graph", _PROGRAMS, _run_arguments, run),
        ("stream", "answer queries on a changing graph", _STREAM, _stream_arguments, stream),
        ("query", "read the results of a loop", _QUERY, _query_arguments, query),
        ("serve", "keep a stateful class, and take calls", _SERVE, _serve_arguments, serve),
        ("call", "call a stateful class that is served", _CALL, _call_arguments, call),
    ):
        one = commands.add_parser(
            name,
            help=what,
            description=what[0].upper() + what[1:] + ".",
            epilog=more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        shown = "show this message" + (
            ", and PROGRAM's parameters" if add in (_run_arguments, _stream_arguments) else ""
        )
        one.add_argument("-h", "--help", action=ProgramHelp, nargs=0, help=shown)
        add(one)
        one.set_defaults(command=command)
    algorithms = commands.add_parser("algorithms", help="list the built-in programs")
    algorithms.set_defaults(command=list_algorithms, verbose=False)
    add_commands(commands)
    return parser


def _at_least(least: int, kind: Callable[[str], float] = int) -> Callable[[str], Any]:
    """Return a parser of finite numbers from `least`."""

    def number(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{excerpt(text)} is not a {what}") from None
        if not least <= value < inf:
            raise argparse.ArgumentTypeError(f"{text} is not allowed; at least {least}")
        return value

    return number


def _number_or(word: str, value: str | None) -> Callable[[str], Any]:
    """Return a parser of whole numbers from 1, and of a word for `value`."""
    return lambda text: value if text == word else _at_least(1)(text)


def _common(add: Callable[..., object], master: str = "all cores of this machine") -> None:
    add("--backend", metavar="URL",
        help="lmdb:///path (default: ./vertexsdk-state), memory://, redis://, postgresql://; "
        "or @FILE for a file that contains it, so that ps shows no password")  # fmt: skip
    if master:
        add("--master", metavar="URL", help=f"Spark master (default: {master})")
    add("--verbose", "-v", action="store_true", help="log progress, and where the time goes")


def _results(add: Callable[..., object]) -> None:
    add("--trusted", action="store_true",
        help="unpickle Python objects in the store, which can run code")  # fmt: skip
    add("--output", metavar="FILE", help="write vertex,value to a .csv or .parquet file")
    add("--field", metavar="NAME", help="the state field to show (default: its class's result)")


def _run_arguments(command: argparse.ArgumentParser) -> None:
    graph = _program_and_graph(command)
    graph("--multi", action="store_true", help="keep duplicate edges, not only the last of each")
    add = command.add_argument_group("recovery").add_argument
    add("--snapshot-every", type=_snapshot_every, metavar="N",
        help="store what is needed to continue after N iterations, or a time as 30s, also of a "
        "lost processor (default: begin again)")  # fmt: skip
    add("--resume", action="store_true",
        help="continue from the snapshot of an interrupted run; without one, begin")  # fmt: skip
    _how(command, "PROGRAM-run")


def _stream_arguments(command: argparse.ArgumentParser) -> None:
    _program_and_graph(command)
    command.set_defaults(dropped="")
    add = command.add_argument_group("the changes").add_argument
    add("--changes", metavar="FILE", required=True, nargs="+", action="extend",
        help="files, directories or globs, in order")  # fmt: skip
    add("--query-every", type=_at_least(1), metavar="N", help="changes (default: at the end only)")
    add("--follow", action="store_true", help="wait for more, until Ctrl-C")
    add("--idle", type=_at_least(0, float), metavar="S",
        help="with --follow, stop after S seconds without input")  # fmt: skip
    add("--resume", action="store_true", help="continue the loop in the store")
    add("--listen", metavar="HOST", default="127.0.0.1",
        help="address of this host on which `vertexsdk query LOOP --exact` is answered "
        "(default: 127.0.0.1)")  # fmt: skip
    add("--time-column", type=_at_least(1), metavar="K", default=0,
        help="field K of a line is its time; count changes whose time runs backwards")  # fmt: skip
    add("--window", metavar="LENGTH",
        help="edges expire when no change with a younger time names them; 7d, 12h, 30m, or a "
        "number in the unit of the times; needs --time-column")  # fmt: skip
    add("--strict", action="store_true",
        help="refuse bad lines, changes of absent edges, times that run backwards")  # fmt: skip
    add("--keep-answers", type=_number_or("all", None), default=100, metavar="N",
        help="newest answers that stay in the store; or all (default: 100)")  # fmt: skip
    add("--budget-iterations", type=_at_least(1), metavar="N", help="iterations after each batch")
    add("--budget-ms", type=_at_least(1), metavar="N",
        help="at most N milliseconds of iterations (default: no iterations)")  # fmt: skip
    add("--snapshot-every", type=_snapshot_every, metavar="N",
        help="store state and graph after N changes, or a time as 10s, so that --resume "
        "continues from there (default: only the changes)")  # fmt: skip
    add("--metrics-port", type=_at_least(0), metavar="PORT",
        help="serve OpenMetrics at http://HOST:PORT/metrics (0: any free port)")  # fmt: skip
    add("--metrics-host", metavar="HOST", default="127.0.0.1",
        help="the address to serve them on (default: 127.0.0.1)")  # fmt: skip
    _how(command, "the program's")


def _snapshot_every(text: str) -> str:
    from vertexsdk.loops.snapshot_policy import SnapshotPolicy  # what it imports takes long

    try:
        SnapshotPolicy.of(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _program_and_graph(command: argparse.ArgumentParser) -> Callable[..., object]:
    command.add_argument(
        "program", metavar="PROGRAM", help="a built-in's name, module:Class, or path.py:Class"
    )
    add = command.add_argument_group("the graph").add_argument
    add("--edges", metavar="FILE", required=True, action="append", help="file, directory or glob")
    add("--vertices", metavar="FILE",
        help="one vertex id per line, and perhaps its class; or CSV `id,...`")  # fmt: skip
    add("--undirected", action="store_true", help="each edge stands for both directions")
    add("--format", choices=("text", "csv", "parquet"), help="of the edge file (default: look)")
    add(
        "--separator",
        metavar="C",
        help="between the cells of CSV files (default: , or in .tsv a tab)",
    )
    for end in ("source", "target", "value"):
        add(f"--{end}-column", metavar="NAME", help=f"of CSV files of edges (default: {end})")
    return add


def _how(command: argparse.ArgumentParser, default: str) -> None:
    add = command.add_argument_group("the run").add_argument
    add("--param", metavar="K=V", action="append", default=[], help="a parameter of the program")
    add("--max-iterations", type=_at_least(0), metavar="N", help="stop after N (default: its own)")
    add("--seed", type=int, default=0, metavar="N", help="of random numbers (default: 0)")
    add("--tolerance", type=_at_least(0, float), metavar="X", help="do not send on smaller changes")
    add("--engine", choices=("spark", "local", "shuffle"), default="spark",
        help="on Spark; in this process, without Spark or Java; on Spark, all messages by its "
        "shuffle (default: spark)")  # fmt: skip
    add("--partitions", type=_at_least(1), metavar="N", help="default: one per executor")
    add("--partitioner", choices=("hash", "ldg", "fennel", "metis"), default="hash",
        help="how vertices are placed; all but hash keep neighbours together")  # fmt: skip
    add("--delay-bound", type=_number_or("auto", "auto"), default=1, metavar="B",
        help="how far partitions may be apart, plus one; or auto (default: 1)")  # fmt: skip
    add("--compiled", choices=("auto", "require", "no"), default="auto",
        help="interpret what does not compile, refuse it, or interpret all "
        "(default: auto)")  # fmt: skip
    add = command.add_argument_group("results").add_argument
    add("--loop", metavar="NAME", help=f"its name in the store (default: {default})")
    add("--replace", action="store_true",
        help="drop the acknowledged changes of a main loop of this name")  # fmt: skip
    add("--commit-every", type=_at_least(1), metavar="N", help="commit every N iterations too")
    _results(add)
    add("--stats", metavar="FILE", help="write iterations, messages, seconds and more as JSON")
    _common(command.add_argument_group("where").add_argument)


def _query_arguments(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("loop", metavar="LOOP", help="name of the loop: the program's, unless run with --loop")
    add("--vertex", metavar="ID", action="append", default=[], help="read only this one; repeat")
    add("--key", metavar="KEY", action="append", default=[],
        help="of a stateful class, read only the row of this key; repeat")  # fmt: skip
    add("--element", metavar="NAME", help="the state element, where a stateful class has several")
    add("--at", type=_at_least(0), metavar="I", help="the version of iteration I or the one before")
    add(
        "--exact",
        action="store_true",
        help="have the process of the loop, a `vertexsdk stream`, compute the exact answer now; "
        "with --at, compute here that for the graph of the version",
    )
    add("--timeout", type=_at_least(0, float), metavar="S", help="of --exact: stop after S seconds")
    add("--program", metavar="PROGRAM", help="of --exact --at: that of the loop, if not a built-in")
    add("--json", action="store_true", help="print JSON lines")
    _results(add)
    _common(add)


def _serve_arguments(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("stateful", metavar="CLASS", help="module:Class, or path.py:Class")
    add("--feed", metavar="METHOD=FILES", action="append", default=[],
        help="make the calls of a file, directory or glob; repeat")  # fmt: skip
    add("--follow", action="store_true", help="files may grow, and come into directories")
    add("--resume", action="store_true", help="continue the loop in the store")
    add("--replace", action="store_true", help="drop the calls of an earlier loop of its name")
    add("--loop", metavar="NAME", help="its name in the store (default: that of the class)")
    add("--partitions", type=_at_least(1), metavar="N", help="default: 1, or one per executor")
    add("--snapshot-every", type=_snapshot_every, metavar="N",
        help="write changed rows every N calls, or a time as 10s (default: at end)")  # fmt: skip
    add("--listen", metavar="HOST", default="127.0.0.1",
        help="address of this host on which calls are taken (default: 127.0.0.1)")  # fmt: skip
    _common(add, master="this process, without Spark")


def _call_arguments(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "loop",
        metavar="CLASS",
        help="name of the loop: that of the class, unless served with --loop",
    )
    add("method", metavar="METHOD", help="of the class")
    add("arguments", metavar="ARG", nargs="*", help="of the method")
    add("--file", metavar="FILE", help="make a call for each line or row of a file")
    add("--output", metavar="FILE", help="write arguments and answers of --file to a .csv file")
    add("--json", action="store_true", help="print answers as JSON, a line each")
    add("--timeout", type=_at_least(0, float), metavar="S", help="an answer may take so long")
    _common(add, master="")


def list_algorithms(args: argparse.Namespace) -> int:
    """Print the built-in programs, a line each: name, what it computes, and parameters."""
    from vertexsdk.algorithms import ALGORITHMS

    width = max(map(len, ALGORITHMS))
    for name in sorted(ALGORITHMS):
        program = Program(ALGORITHMS[name], name=name)
        parameters = ", ".join(f"{n} ({of})" for n, _, of in parameters_of(program))
        line = f"{name:{width}}  {summary(program)}"
        print(f"{line} Parameters: {parameters}." if parameters else line)
    return 0


def program_help(text: str) -> str:
    """Return what `run PROGRAM --help` says of a program: what it computes, its parameters.

    Raises:
        InputError: no such program.
    """
    from vertexsdk.loops.find_program import load_program

    program = load_program(text)
    rows = parameters_of(program)
    width = max((len(name) for name, *_ in rows), default=0)
    lines = [f"\n{program.name}: {summary(program)}"]
    lines += textwrap.wrap(f"The output value is {program.result}.", 98)
    lines += ["", f"parameters of {program.name} (--param NAME=VALUE):"]
    lines += [f"  {name:{width}}  {kind}, {of}" for name, kind, of in rows] or ["  none"]
    return "\n".join(lines) + "\n"


def summary(program: Program) -> str:
    """Return the first sentence that the docstring of a program's first class says."""
    text = inspect.cleandoc(program.classes[0].cls.__dict__.get("__doc__") or "")
    return " ".join(text.partition("\n\n")[0].split()) or "(its class has no docstring)"


def parameters_of(program: Program) -> list[tuple[str, str, str]]:
    """Return each parameter's name, type, and its default in words."""
    rows = []
    for spec in program.classes:
        for name, (kind, default) in spec.params.items():
            of = "required" if default is MISSING else f"default {default}"
            if default is None:
                of = "default none"
            what = "a vertex id" if kind is VertexId else getattr(kind, "__name__", str(kind))
            rows.append((name, what, of))
    return rows


class ProgramHelp(argparse.Action):
    """`--help` that also shows the parameters of the program named before it, or after it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Print the help, and end."""
        parser.print_help()
        program = getattr(namespace, "program", None)
        if program:
            print(program_help(program), end="")
        parser.exit()
