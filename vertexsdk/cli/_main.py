"""The command line: `vertexsdk run`, `stream`, `query`, `serve` and `call`.

Exit status: 0 done; 1 the run failed, and what was committed stays readable; 2 bad arguments or
input, with a message of one line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vertexsdk.cli._arguments import parser
from vertexsdk.cli._text import text_of
from vertexsdk.errors import InputError, RunError, VertexError, typed_line
from vertexsdk.loops.signals import interrupted_by_signals
from vertexsdk.state.address import Address, address_or_default, scrubbed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vertexsdk.graph.graph import Graph
    from vertexsdk.loops.main_loop import MainLoop
    from vertexsdk.loops.metrics import MetricsServer
    from vertexsdk.loops.result import Result
    from vertexsdk.program.program import Program


_REASONS = {
    "quiet": "nothing left to do",
    "converged": "converged",
    "max_iterations": "stopped at its maximum",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status.

    A Spark session that runs already is used and left running.

    >>> main(["--version"])
    vertexsdk 0.1.0
    0
    """
    with _messages(), interrupted_by_signals():
        clock = CommandClock()
        try:
            args = parser(_run, _stream, _query, _serve, _call).parse_args(arguments)
            args.clock = clock
            if args.verbose:
                logging.getLogger("vertexsdk").setLevel(logging.INFO)
            return int(args.command(args))
        except SystemExit as stop:  # --help and --version
            return int(stop.code or 0)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt as signalled:
            return _fail(f"{signalled or 'interrupted'}; versions committed before stay readable")
        except MemoryError:
            return _fail("out of memory; use more memory, or more --partitions on more hosts")
        except VertexError as error:
            return _fail(str(error).partition("\n")[0], error.exit_status)
        except Exception as error:
            return _fail(f"unexpected {typed_line(error)}; set VERTEXSDK_TRACEBACK=1 to see where")


def _fail(text: str, status: int = 1) -> int:
    if os.environ.get("VERTEXSDK_TRACEBACK"):
        import traceback

        traceback.print_exc()
    print(f"vertexsdk: {with_flags(scrubbed(text)).rstrip(': ')}", file=sys.stderr)
    return status


class _WithFlags(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return with_flags(super().formatMessage(record))


@contextlib.contextmanager
def _messages() -> Iterator[None]:
    """Write log records and warnings to standard error, a line each; restore settings after."""
    # On a terminal, a message overwrites the progress line.
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_WithFlags(f"{clear}vertexsdk: %(message)s"))
    log, gateway = logging.getLogger("vertexsdk"), logging.getLogger("py4j")
    silent = logging.NullHandler()
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.WARNING)
    log.propagate = False
    gateway.addHandler(silent)
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
            warnings.simplefilter("default", UserWarning)  # each one once
        warnings.showwarning = lambda message, *_, **__: print(
            f"{clear}vertexsdk: {with_flags(str(message))}", file=sys.stderr
        )
        try:
            yield
        finally:
            log.removeHandler(handler)
            gateway.removeHandler(silent)
            log.setLevel(level)
            log.propagate = propagate


@contextlib.contextmanager
def _started(
    args: argparse.Namespace, name: str, loop: str | None
) -> Iterator[SparkSession | None]:
    """Look whether the store can be opened; then yield the session, as `_spark`.

    Args:
        loop: the loop that the command begins; None if it continues one.
    """
    with contextlib.ExitStack() as stack:
        with args.clock.timed("check"):
            _check_store(address_or_default(args.backend), None if args.replace else loop)
        with args.clock.timed("spark"):
            spark = stack.enter_context(_spark(args, name))
        yield spark


def _check_store(address: Address, loop: str | None) -> None:
    """Raise StateError if a store cannot be opened; a directory is not made for that.

    Args:
        loop: whose acknowledged changes are not to be lost; None for none.
    """
    from vertexsdk.engine.loop_names import refuse_to_replace
    from vertexsdk.state import open_store

    scheme, _, place = address.reveal().partition("://")
    if scheme == "memory" or (scheme == "lmdb" and not os.path.lexists(place.partition("?")[0])):
        return
    with open_store(address) as store:
        if loop is not None:
            refuse_to_replace(store.head(loop), loop, store.backend.location)


@contextlib.contextmanager
def _spark(args: argparse.Namespace, name: str) -> Iterator[SparkSession | None]:
    """Yield the running session, or one that stops at the end; None for `--engine local`."""
    master = args.master
    if args.engine == "local":
        if master is not None:
            raise InputError("--master is for --engine spark; leave out one of the two")
        yield None
        return
    from pyspark import SparkContext

    from vertexsdk.engine.progress import ProgressBar
    from vertexsdk.transport.session import light_java, session

    running = SparkContext._active_spark_context
    if running is not None:
        if master not in (None, running.master):
            raise InputError(f"--master {master}: Spark runs on {running.master} already; stop it")
        yield session()
        return
    with ProgressBar(name, None) as bar:
        bar.say("starting Spark")
        interrupted = signal.getsignal(signal.SIGINT)
        spark = session(master, **light_java(master))
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupted)  # PySpark's calls the JVM, maybe within a call
    try:
        yield spark
    finally:
        spark.stop()


def _checked(args: argparse.Namespace, **options: Any) -> tuple[Program, dict[str, str]]:
    """Check all arguments that can be checked before Spark is started.

    Args:
        options: the options of `RunOptions`, beside those that every command has.
    """
    from vertexsdk.engine.run_options import RunOptions
    from vertexsdk.graph.load.files import check_paths
    from vertexsdk.loops.arguments import with_parameters
    from vertexsdk.loops.output import check_path
    from vertexsdk.program.fields import Fields

    if args.output:
        check_path(args.output)
    if args.stats:
        _check_writable(args.stats)
    program, params = with_parameters(args.program, _params(args.param))
    program.bind(params)
    RunOptions.checked(
        program, params, delay_bound=args.delay_bound, max_iterations=args.max_iterations,
        **options,
    )  # fmt: skip
    if args.field:
        Fields(program.name, program.schema(), program.result).find(args.field)
    if (args.master or "local").startswith("local") or args.engine == "local":
        check_paths(args.edges, args.vertices)
    return program, params


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "backend": args.backend,
        "loop": args.loop,
        "replace": args.replace,
        "max_iterations": args.max_iterations,
        "seed": args.seed,
        "tolerance": args.tolerance,
        "commit_every": args.commit_every,
        "delay_bound": args.delay_bound,
        "trusted": args.trusted,
        "exchange": "shuffle" if args.engine == "shuffle" else "auto",
        "compiled": "require" if args.compiled == "require" else args.compiled == "auto",
    }


def _graph(args: argparse.Namespace, spark: SparkSession | None) -> Graph:
    from vertexsdk.graph.graph import Graph

    return Graph.read(
        spark,
        args.edges,
        vertices=args.vertices,
        undirected=args.undirected,
        multi=getattr(args, "multi", False),
        partitions=args.partitions,
        format=args.format,
        partitioner=args.partitioner,
        separator="\t" if args.separator == "\\t" else args.separator,
        source=args.source_column,
        target=args.target_column,
        value=args.value_column,
    )


def _run(args: argparse.Namespace) -> int:
    with args.clock.timed("import"):
        from vertexsdk.engine.loop_names import loop_of_run
        from vertexsdk.loops.run import run
        from vertexsdk.loops.snapshot_policy import SnapshotPolicy
    with args.clock.timed("check"):
        program, params = _checked(
            args, resume=args.resume, trusted=args.trusted,
            snapshots=SnapshotPolicy.of(args.snapshot_every).interval,
        )  # fmt: skip
    with _started(args, program.name, args.loop or loop_of_run(program.name)) as spark:
        with args.clock.timed("plan"):
            graph = _graph(args, spark)
        try:
            result = run(
                program, graph, params=params, snapshot_every=args.snapshot_every,
                resume=args.resume, **_options(args),
            )  # fmt: skip
        finally:
            graph.unpersist()
        with contextlib.closing(result):
            if args.output:
                with args.clock.timed("write"):
                    result.write(args.output, args.field)
            statistics = {**result.statistics, **args.clock.split(result.statistics["spent"])}
            if args.stats:
                _write_statistics(args.stats, statistics)
            _summary(args, result, statistics)
    return 0


def _stream(args: argparse.Namespace) -> int:
    from vertexsdk.cli._stream_command import StreamSession

    if args.resume and args.replace:
        raise InputError("--resume continues what --replace drops: leave out one of the two")
    program, params = _checked(args)
    stream = StreamSession(
        args.changes, query_every=args.query_every, follow=args.follow, idle=args.idle,
        time_field=args.time_column,
    )  # fmt: skip
    if args.idle is not None and not args.follow:
        raise InputError("--idle needs --follow, which it ends: add --follow")
    length = _window_length(args)
    with (
        _metrics(args) as metrics,
        _started(args, program.name, None if args.resume else args.loop or program.name) as spark,
        _main_loop(args, spark, program, params) as main,
    ):
        if length is not None:
            main.window(length)
        main.serve_queries(args.listen)
        if metrics is not None:
            metrics.add(main.progress)
        for result in stream.answers(main):
            with contextlib.closing(result):
                if args.output:
                    result.write(_numbered(args.output, stream.queries), args.field)
                print(stream.summary(result), file=sys.stderr)
    stream.statistics["total_seconds"] = args.clock.seconds
    if args.stats:
        _write_statistics(args.stats, stream.statistics)
    if args.dropped:
        print(args.dropped, file=sys.stderr)
    print(stream.last_line(), file=sys.stderr)
    return 0


def _window_length(args: argparse.Namespace) -> float | None:
    """The length of `--window`, in seconds."""
    if args.window is None:
        return None
    from vertexsdk.loops.durations import seconds_of

    if not args.time_column:
        raise InputError("--window needs the time of each change: add --time-column K")
    return seconds_of(args.window)


@contextlib.contextmanager
def _metrics(args: argparse.Namespace) -> Iterator[MetricsServer | None]:
    """Serve metrics, if asked to; before Spark starts, so that a port in use is said at once."""
    if args.metrics_port is None:
        yield None
        return
    from vertexsdk.loops.metrics import MetricsServer

    with contextlib.closing(MetricsServer(args.metrics_port, args.metrics_host)) as server:
        print(f"metrics: {server.address}", file=sys.stderr)
        yield server


def _main_loop(
    args: argparse.Namespace,
    spark: SparkSession | None,
    program: Program,
    params: dict[str, str],
) -> MainLoop:
    """The main loop of a stream: resumed from the store with --resume, else from the edges."""
    from vertexsdk.engine.commands import Budget
    from vertexsdk.loops.main_loop import MainLoop
    from vertexsdk.state import open_store

    options = {**_options(args), "strict": args.strict, "keep_answers": args.keep_answers}
    options["snapshot_every"] = args.snapshot_every
    if args.budget_iterations is not None or args.budget_ms is not None:
        seconds = None if args.budget_ms is None else args.budget_ms / 1000
        options["budget"] = Budget(args.budget_iterations, seconds)
    name = args.loop or program.name
    with open_store(address_or_default(args.backend)) as store:
        numbers = store.version(name).statistics.get("main", {}) if store.head(name) else None
    if args.resume:
        if numbers is not None:
            del options["replace"]
            return MainLoop.resume(spark, program, params=params or None, **options)
        print(f"{name}: not in the store yet; starting from --edges", file=sys.stderr)
    elif args.replace and numbers and numbers.get("received"):
        dropped = _count(numbers["received"], "change")
        args.dropped = f"{name}: dropped {dropped} of an earlier stream in the store"
    return MainLoop(program, _graph(args, spark), params=params, **options)


def _numbered(path: str, number: int) -> str:
    """The output of query `number`: out.csv gives out-1.csv, out-2.csv, ..."""
    name = Path(path)
    return str(name.with_name(f"{name.stem}-{number}{name.suffix}"))


def _params(pairs: Sequence[str]) -> dict[str, str]:
    params: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--param {pair}: write it as name=value")
        params[name] = value
    return params


def _check_writable(path: str) -> None:
    directory = Path(path).absolute().parent
    if not directory.is_dir():
        raise InputError(f"--stats {path}: there is no directory {directory}; create it")
    if Path(path).is_dir() or not os.access(directory, os.W_OK):
        raise InputError(f"--stats {path}: cannot write a file there; choose another")


def _write_statistics(path: str, statistics: dict[str, Any]) -> None:
    try:
        Path(path).write_text(json.dumps(statistics, indent=2, default=str) + "\n")
    except OSError as error:
        raise RunError(f"--stats {path}: {error.strerror}; the results are committed") from None


def _summary(args: argparse.Namespace, result: Result, s: dict[str, Any]) -> None:
    lines = [
        f"{result.loop}: {_count(s['num_vertices'], 'vertex', 'vertices')}, "
        f"{_count(s['num_edges'], 'edge')}; {_count(s['iterations'], 'iteration')}, "
        f"{_count(s['messages'], 'message')} in {s['seconds']:.2f} s; "
        f"{_REASONS.get(s['reason'], s['reason'])}; "
        f"{s['total_seconds']:.1f} s in all: {args.clock.summary(s['spent'])}"
    ]
    if args.verbose:
        lines += args.clock.table(s["spent"])
    if args.output:
        lines.append(f"wrote {args.output}")
    if not str(result.backend).startswith("memory:"):
        url = "" if args.backend is None else f" --backend {shlex.quote(str(result.backend))}"
        read = f"vertexsdk query {shlex.quote(result.loop)}{url}"
        lines.append(f"version {result.iteration} is in the store; read it by: {read}")
    print("\n".join(lines), file=sys.stderr)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _serve(args: argparse.Namespace) -> int:
    from vertexsdk.cli._keyed_commands import serve, stateful_class

    cls = stateful_class(args.stateful)
    args.engine = "local" if args.master is None else "spark"
    with _spark(args, cls.__name__) as spark:
        serve(args, cls, spark)
    return 0


def _call(args: argparse.Namespace) -> int:
    from vertexsdk.cli._keyed_commands import call

    call(args)
    return 0


def _query(args: argparse.Namespace) -> int:
    from vertexsdk.loops.output import check_path
    from vertexsdk.loops.result import read

    if args.output:
        check_path(args.output)
    backend = address_or_default(args.backend)
    if args.timeout is not None and not args.exact:
        raise InputError("--timeout needs --exact, which it limits: add --exact")
    if args.program is not None and (args.at is None or not args.exact):
        raise InputError("--program is for --exact --at I, which compute an answer: add both")
    if _query_state(args, backend):
        return 0
    result = read(
        backend, args.loop, args.at, trusted=args.trusted, exact=args.exact, timeout=args.timeout,
        program=args.program,
    )  # fmt: skip
    with contextlib.closing(result):
        staleness = result.staleness()
        if args.field:
            result.check_field(args.field)
        if args.output:
            result.write(args.output, args.field, args.vertex or None)
            rows: Iterator[tuple[Any, dict[str, Any]]] = iter(())
        elif args.vertex:
            rows = iter(result.require(args.vertex, args.field).items())
        else:
            rows = result.rows(args.field)
        if staleness:
            print(staleness, file=sys.stderr)
        for vertex, row in rows:
            _print_row(vertex, row, args.json)
    return 0


def _query_state(args: argparse.Namespace, backend: Address) -> bool:
    """Print the rows of a stateful class; return False if the loop is of a graph."""
    from vertexsdk.state import open_store
    from vertexsdk.stateful.stateful_loop import StoredState, is_stateful

    with open_store(backend, create=False) as store:
        newest = store.head(args.loop)
        if newest is None or not is_stateful(newest):
            if args.key or args.element:
                raise InputError(
                    f"loop {args.loop!r} is of a graph: use --vertex in place of --key"
                )
            return False
        for name in ("vertex", "output", "field", "exact"):
            if getattr(args, name):
                raise InputError(
                    f"--{name} is for loops of graphs, and {args.loop!r} is of a stateful class: "
                    "use --key and --element"
                )
        state = StoredState(store, store.version(args.loop, args.at), args.element)
        if state.missing:
            print(
                f"{args.loop}: {_count(state.missing, 'call')} since the snapshot of these rows",
                file=sys.stderr,
            )
        wanted = list(map(state.key_of, args.key))
        missing = dict.fromkeys(wanted)
        for key, row in state.rows(wanted):
            missing.pop(key, None)
            if args.json:
                print(json.dumps({"key": key, **row}, default=text_of))
            else:
                print(key, *(f"{name}={text_of(value)}" for name, value in row.items()))
        if missing:
            raise InputError(f"loop {args.loop!r} has no row of {', '.join(map(repr, missing))}")
    return True


def _print_row(vertex: Any, row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"vertex": vertex, **row}, default=text_of))
    else:
        print(vertex, *(f"{name}={text_of(value)}" for name, value in row.items()))


OWN = {
    "import": "Python modules are imported: Numba, NumPy, Arrow",
    "check": "the program is imported, and all arguments are checked",
    "spark": "the Spark session is started: a Java process",
    "write": "the output file is written",
    "plan": "the edge files are looked at",
    "other": "everything else",
}
_GROUPS = {
    "importing": ("import",),
    "starting Spark": ("spark",),
    "loading": ("plan", "load", "schedule", "start", "prepare", "decode", "open"),
    "compiling": ("compile",),
    "iterating": ("kernel", "encode", "results", "driver", "changes", "save"),
    "storing": ("claim", "commit", "write"),
    "the rest": ("check", "rest", "other"),
}


class CommandClock:
    """The time since a command began, by phase."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """The seconds since the command began."""
        return time.perf_counter() - self._began

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count what the block takes as this phase of `OWN`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            earlier = self._seconds.get(phase, 0.0)
            self._seconds[phase] = earlier + time.perf_counter() - began

    def split(self, run: Mapping[str, float]) -> dict[str, Any]:
        """Return `total_seconds` until now, and `spent`, the seconds by phase, which add up to it.

        Args:
            run: the seconds by phase of the run itself, by the names of `engine.phases`.
        """
        total = self.seconds
        spent = {**run, **{name: self._seconds.get(name, 0.0) for name in OWN}}
        spent["other"] = max(total - sum(spent.values()), 0.0)
        return {"total_seconds": total, "spent": spent}

    def summary(self, spent: Mapping[str, float]) -> str:
        """Return the phases in a few words: those that took a tenth of a second or more."""
        groups = {name: sum(spent.get(p, 0.0) for p in g) for name, g in _GROUPS.items()}
        largest = max(groups, key=lambda name: groups[name])
        return ", ".join(
            f"{name} {seconds:.1f}"
            for name, seconds in groups.items()
            if seconds >= 0.05 or name == largest
        )

    def table(self, spent: Mapping[str, float]) -> list[str]:
        """Return a line for each phase, with what is done in it."""
        from vertexsdk.engine.phases import PHASES

        words = {**PHASES, "rest": "of the run: between the phases", **OWN}
        return [
            f"  {name:9}{seconds:8.3f} s  {words.get(name, '')}"
            for name, seconds in spent.items()
            if seconds >= 0.0005
        ]


# Messages as the command line shows them: its flags in place of Python's arguments.
#
# The rest of the package writes what to do as Python does, `replace=True`, `loop=`.

_NAMES = (
    "at", "backend", "commit_every", "delay_bound", "element", "exact", "format", "grace",
    "keep_answers", "loop", "max_iterations", "multi", "partitioner", "partitions", "program",
    "replace", "resume", "seed", "separator", "snapshot_every", "strict", "timeout", "tolerance",
    "trusted", "undirected", "vertices",
)  # fmt: skip
_OPTION = re.compile(rf"\b({'|'.join(_NAMES)})=(True\b|(?=[\w'\"]))?")
_CALLS = {
    "MainLoop.resume(...)": "`vertexsdk stream --resume`",
    "StatefulLoop.resume(...)": "`vertexsdk serve --resume`",
    "MainLoop(program, graph)": "`vertexsdk stream` without --resume",
    "compiled=False": "--compiled no",
    "exchange='shuffle'": "--engine shuffle",
    "source=, target=": "--source-column, --target-column",
    "pass trusted=True": "add --trusted",
}


def with_flags(text: str) -> str:
    """Return a message with flags in place of arguments.

    >>> with_flags("continue with MainLoop.resume(...), or drop them with replace=True")
    'continue with `vertexsdk stream --resume`, or drop them with --replace'
    >>> with_flags("another loop= or partitions=4; give a value for origin, as in origin=...")
    'another --loop or --partitions 4; give a value for origin, as in --param origin=...'
    >>> with_flags("give separator=';', or say which they are: source=, target=")
    "give --separator ';', or say which they are: --source-column, --target-column"
    """
    for call, flag in _CALLS.items():
        text = text.replace(call, flag)
    text = re.sub(r"\b(\w+=\.\.\.)", r"--param \1", text)
    return _OPTION.sub(_flag, text)


def _flag(match: re.Match[str]) -> str:
    value = " " if match[2] == "" else ""  # one follows
    return f"--{match[1].replace('_', '-')}{value}"
