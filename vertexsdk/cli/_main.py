"""The command line: `vertexsdk run`, `stream` and `query`.

Exit status: 0 done; 1 the run failed, and what was committed stays readable; 2 bad arguments or
input, said in one line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vertexsdk.cli._arguments import parser
from vertexsdk.errors import InputError, RunError, VertexError
from vertexsdk.state.address import scrubbed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vertexsdk.graph.graph import Graph
    from vertexsdk.loops.main_loop import MainLoop
    from vertexsdk.loops.result import Result
    from vertexsdk.program.program import Program

__all__ = ["main"]

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
    with _messages():
        try:
            given = parser(_run, _stream, _query).parse_args(arguments)
            if given.verbose:
                logging.getLogger("vertexsdk").setLevel(logging.INFO)
            return int(given.command(given))
        except SystemExit as stop:  # --help and --version
            return int(stop.code or 0)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt:
            return _fail("interrupted; versions committed before stay readable")
        except MemoryError:
            return _fail(
                "out of memory; give the machine more, or use more --partitions on more hosts"
            )
        except VertexError as error:
            said = _first_line(error).replace("pass trusted=True", "add --trusted")
            return _fail(said, error.exit_status)
        except Exception as error:
            return _fail(
                f"unexpected {type(error).__name__}: {_first_line(error)}; "
                "set VERTEXSDK_TRACEBACK=1 to see where"
            )


def _fail(text: str, status: int = 1) -> int:
    if os.environ.get("VERTEXSDK_TRACEBACK"):
        import traceback

        traceback.print_exc()
    print(f"vertexsdk: {scrubbed(text).rstrip(': ')}", file=sys.stderr)
    return status


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


@contextlib.contextmanager
def _messages() -> Iterator[None]:
    """Log lines and warnings go to standard error, a line each; a caller's settings come back."""
    # On a terminal a live line may stand where the message is to go.
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"{clear}vertexsdk: %(message)s"))
    log, gateway, silent = (
        logging.getLogger("vertexsdk"),
        logging.getLogger("py4j"),
        logging.NullHandler(),
    )
    before, passes_on = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.WARNING)
    log.propagate = False
    gateway.addHandler(silent)
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print(
            f"{clear}vertexsdk: {message}", file=sys.stderr
        )
        try:
            yield
        finally:
            log.removeHandler(handler)
            gateway.removeHandler(silent)
            log.setLevel(before)
            log.propagate = passes_on


@contextlib.contextmanager
def _spark(master: str | None, name: str) -> Iterator[SparkSession]:
    """The session which runs already, or one that is stopped at the end."""
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
        spark = session(master, **light_java(master))
    try:
        yield spark
    finally:
        spark.stop()


def _checked(given: argparse.Namespace) -> tuple[Program, dict[str, str]]:
    """Find all that can be found wrong before Spark is started."""
    from vertexsdk.cli._find_program import load_program
    from vertexsdk.loops.output import check_path
    from vertexsdk.program.analysis.delay_bound import checked_bound
    from vertexsdk.program.fields import Fields

    if given.output:
        check_path(given.output)
    if given.stats:
        _check_writable(given.stats)
    program = load_program(given.program)
    params = _params(given.param)
    program.bind(params)
    checked_bound(given.delay_bound, program, params, given.max_iterations)
    if given.field:
        Fields(program.name, program.schema(), program.result).find(given.field)
    return program, params


def _options(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "backend": given.backend,
        "loop": given.loop,
        "max_iterations": given.max_iterations,
        "tolerance": given.tolerance,
        "commit_every": given.commit_every,
        "delay_bound": given.delay_bound,
        "trusted": given.trusted,
        "compiled": "require" if given.compiled == "require" else given.compiled == "auto",
    }


def _graph(given: argparse.Namespace, spark: SparkSession) -> Graph:
    from vertexsdk.graph.graph import Graph

    return Graph.read(
        spark,
        given.edges,
        vertices=given.vertices,
        undirected=given.undirected,
        multi=getattr(given, "multi", False),
        partitions=given.partitions,
        format=given.format,
        partitioner=given.partitioner,
    )


def _run(given: argparse.Namespace) -> int:
    from vertexsdk.loops.run import run

    program, params = _checked(given)
    with _spark(given.master, program.name) as spark:
        graph = _graph(given, spark)
        try:
            result = run(program, graph, params=params, **_options(given))
        finally:
            graph.unpersist()
        with contextlib.closing(result):
            if given.output:
                result.write(given.output, given.field)
            if given.stats:
                _write_statistics(given.stats, result.statistics)
            _summary(given, result)
    return 0


def _stream(given: argparse.Namespace) -> int:
    from vertexsdk.cli._stream_command import StreamSession

    program, params = _checked(given)
    stream = StreamSession(
        given.changes, query_every=given.query_every, follow=given.follow, idle=given.idle,
        time_field=given.time_column,
    )  # fmt: skip
    if given.idle is not None and not given.follow:
        raise InputError("--idle: is for --follow, which it ends; add that")
    with (
        _spark(given.master, program.name) as spark,
        _main_loop(given, spark, program, params) as main,
    ):
        for result in stream.answers(main):
            with contextlib.closing(result):
                if given.output:
                    result.write(_numbered(given.output, stream.queries), given.field)
                print(stream.summary(result), file=sys.stderr)
    if given.stats:
        _write_statistics(given.stats, stream.statistics)
    print(stream.last_line(), file=sys.stderr)
    return 0


def _main_loop(
    given: argparse.Namespace, spark: SparkSession, program: Program, params: dict[str, str]
) -> MainLoop:
    """The main loop of a stream: as the store has it, with --resume, or from the base."""
    from vertexsdk.engine.engine import Budget
    from vertexsdk.loops.main_loop import MainLoop
    from vertexsdk.state import open_store
    from vertexsdk.state.default_url import chosen_backend

    options = {**_options(given), "strict": given.strict, "keep_answers": given.keep_answers}
    if given.budget_iterations is not None or given.budget_ms is not None:
        seconds = None if given.budget_ms is None else given.budget_ms / 1000
        options["budget"] = Budget(given.budget_iterations, seconds)
    if given.resume:
        name = given.loop or program.name
        with open_store(chosen_backend(given.backend)) as store:
            there = store.head(name) is not None
        if there:
            return MainLoop.resume(spark, program, params=params or None, **options)
        print(f"{name}: not in the store yet; beginning with the base", file=sys.stderr)
    return MainLoop(program, _graph(given, spark), params=params, **options)


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
        raise InputError(f"--stats {path}: no such directory as {directory}; make it")
    if Path(path).is_dir() or not os.access(directory, os.W_OK):
        raise InputError(f"--stats {path}: no file can be written there; choose another")


def _write_statistics(path: str, statistics: dict[str, Any]) -> None:
    try:
        Path(path).write_text(json.dumps(statistics, indent=2, default=str) + "\n")
    except OSError as error:
        raise RunError(f"--stats {path}: {error.strerror}; the results are committed") from None


def _summary(given: argparse.Namespace, result: Result) -> None:
    s = result.statistics
    lines = [
        f"{result.loop}: {_count(s['num_vertices'], 'vertex', 'vertices')}, "
        f"{_count(s['num_edges'], 'edge')}; {_count(s['iterations'], 'iteration')}, "
        f"{_count(s['messages'], 'message')} in {s['seconds']:.2f} s; "
        f"{_REASONS.get(s['reason'], s['reason'])}"
    ]
    if given.output:
        lines.append(f"wrote {given.output}")
    if not str(result.backend).startswith("memory:"):
        url = "" if given.backend is None else f" --backend {shlex.quote(str(result.backend))}"
        read = f"vertexsdk query {shlex.quote(result.loop)}{url}"
        lines.append(f"version {result.iteration} is kept; read it by: {read}")
    print("\n".join(lines), file=sys.stderr)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _query(given: argparse.Namespace) -> int:
    from vertexsdk.loops.output import check_path
    from vertexsdk.loops.result import read
    from vertexsdk.state.default_url import chosen_backend

    if given.output:
        check_path(given.output)
    backend = chosen_backend(given.backend)
    with contextlib.closing(read(backend, given.loop, given.at, trusted=given.trusted)) as result:
        staleness = result.staleness()
        if given.field:
            result.check_field(given.field)
        if given.output:
            result.write(given.output, given.field, given.vertex or None)
            rows: Iterator[tuple[Any, dict[str, Any]]] = iter(())
        elif given.vertex:
            rows = iter(result.require(given.vertex, given.field).items())
        else:
            rows = result.rows(given.field)
        if staleness:
            print(staleness, file=sys.stderr)
        for vertex, row in rows:
            _print_row(vertex, row, given.json)
    return 0


def _print_row(vertex: Any, row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"vertex": vertex, **row}, default=str))
    else:
        print(vertex, *(f"{name}={value}" for name, value in row.items()))


if __name__ == "__main__":
    sys.exit(main())
