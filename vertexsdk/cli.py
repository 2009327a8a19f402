"""The command line: `vertexsdk run` and `vertexsdk query`.

Exit status: 0 done; 1 the run failed, and what was committed stays readable; 2 bad arguments or
input, said in one line.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from vertexsdk.errors import InputError, VertexError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    warnings.formatwarning = _one_line_warning
    parser = _parser()
    try:
        given = parser.parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    logging.getLogger("vertexsdk").setLevel(logging.INFO if given.verbose else logging.WARNING)
    try:
        return int(given.command(given))
    except VertexError as error:
        print(f"vertexsdk: {_first_line(error)}", file=sys.stderr)
        if os.environ.get("VERTEXSDK_TRACEBACK"):
            raise
        return error.exit_status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("vertexsdk: interrupted; versions committed before stay readable", file=sys.stderr)
        return 1
    except MemoryError:
        print(
            "vertexsdk: out of memory; use more --partitions on more hosts, or a smaller graph",
            file=sys.stderr,
        )
        return 1


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _one_line_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return f"vertexsdk: {message}\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vertexsdk",
        description="Iterative computation on graphs, on Apache Spark.",
        epilog="Set VERTEXSDK_TRACEBACK=1 to see where an error comes from.",
    )
    from vertexsdk import __version__

    parser.add_argument("--version", action="version", version=f"vertexsdk {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _run_arguments(commands.add_parser("run", help="run a program over a graph"))
    _query_arguments(commands.add_parser("query", help="read the results of a loop"))
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend", metavar="URL", help="the versioned store: lmdb:///path or memory://name"
    )
    parser.add_argument("--master", metavar="URL", help="Spark master (default: all local cores)")
    parser.add_argument("--verbose", "-v", action="store_true", help="log what is going on")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("program", metavar="PROGRAM", help="a built-in's name, module:Class, or path.py:Class")
    add("--edges", metavar="FILE", required=True, action="append", help="edge file, directory, glob")
    add("--vertices", metavar="FILE", help="one vertex id per line, and perhaps its class")
    add("--undirected", action="store_true", help="each edge stands for both directions")
    add("--multi", action="store_true", help="keep duplicate edges")
    add("--format", choices=("text", "csv", "parquet"), help="of the edge file (default: look)")
    add("--param", metavar="K=V", action="append", default=[], help="a parameter of the program")
    add("--partitions", type=int, metavar="N", help="default: one per executor")
    add("--delay-bound", type=int, default=1, metavar="B", help="only 1 (synchronous) so far")
    add("--max-iterations", type=int, metavar="N")
    add("--tolerance", type=float, metavar="X", help="do not scatter for a smaller change")
    add("--commit-every", type=int, metavar="N", help="commit every N iterations too")
    add("--compiled", choices=("auto", "require", "no"), default="auto")
    add("--loop", metavar="NAME", help="name of the loop in the store (default: the program's)")
    add("--output", metavar="FILE", help="write vertex,value to a .csv or .parquet file")
    add("--field", metavar="NAME", help="the state field to write")
    add("--stats", metavar="FILE", help="write the run's statistics as JSON")
    _common(parser)
    parser.set_defaults(command=_run)


def _query_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("loop", metavar="LOOP", help="name of the loop")
    add("--vertex", metavar="ID", action="append", default=[], help="read these vertices only")
    add("--at", type=int, metavar="I", help="the version of this iteration or the one before")
    add("--output", metavar="FILE", help="write vertex,value to a .csv or .parquet file")
    add("--field", metavar="NAME", help="the state field to write")
    add("--json", action="store_true", help="print JSON lines")
    _common(parser)
    parser.set_defaults(command=_query)


def _run(given: argparse.Namespace) -> int:
    from vertexsdk.naming import load_program
    from vertexsdk.output import check_path

    if given.delay_bound != 1:
        raise InputError("--delay-bound: only 1 (synchronous iterations) is supported so far")
    if given.partitions is not None and given.partitions < 1:
        raise InputError(f"--partitions is {given.partitions}; it must be at least 1")
    if given.output:
        check_path(given.output)
    program = load_program(given.program)
    params = _params(given.param)
    program.bind(params)  # before Spark is started

    from vertexsdk.graph import Graph
    from vertexsdk.loops import run
    from vertexsdk.session import session

    spark = session(given.master)
    try:
        graph = Graph.read(
            spark,
            given.edges if len(given.edges) > 1 else given.edges[0],
            vertices=given.vertices,
            undirected=given.undirected,
            multi=given.multi,
            partitions=given.partitions,
            format=given.format,
        )
        result = run(
            program,
            graph,
            params=params,
            backend=given.backend,
            loop=given.loop,
            max_iterations=given.max_iterations,
            tolerance=given.tolerance,
            commit_every=given.commit_every,
            compiled={"auto": True, "require": "require", "no": False}[given.compiled],
        )
        if given.output:
            result.write(given.output, given.field)
        if given.stats:
            _write_statistics(given.stats, result.statistics)
        _summary(given, result)
    finally:
        spark.stop()
    return 0


def _params(pairs: Sequence[str]) -> dict[str, str]:
    params: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--param {pair}: write it as name=value")
        params[name] = value
    return params


def _write_statistics(path: str, statistics: dict[str, Any]) -> None:
    try:
        with open(path, "w") as f:
            json.dump(statistics, f, indent=2, default=str)
            f.write("\n")
    except OSError as error:
        raise InputError(f"--stats {path}: {error.strerror}") from None


def _summary(given: argparse.Namespace, result: Any) -> None:
    s = result.statistics
    print(
        f"{result.loop}: {s['num_vertices']:,} vertices, {s['num_edges']:,} edges, "
        f"{s['iterations']} iterations, {s['messages']:,} messages in {s['seconds']:.2f} s "
        f"({s['reason']}); version {result.iteration} in {_hide(result.backend)}",
        file=sys.stderr,
    )


def _hide(url: str) -> str:
    """The URL without a password."""
    scheme, _, rest = url.partition("://")
    account, at, host = rest.rpartition("@")
    return f"{scheme}://{account.split(':')[0]}{at}{host}"


def _query(given: argparse.Namespace) -> int:
    from vertexsdk.defaults import default_backend
    from vertexsdk.output import check_path
    from vertexsdk.results import read

    if given.output:
        check_path(given.output)
    result = read(given.backend or default_backend(), given.loop, given.at)
    if given.output:
        result.write(given.output, given.field)
        return 0
    if given.vertex:
        found = result.lookup(given.vertex)
        keys = given.vertex if result.manifest.ids == "str" else [int(v) for v in given.vertex]
        missing = [v for v in keys if v not in found]
        for v in keys:
            if v in found:
                _print_row(v, found[v], given)
        if missing:
            raise InputError(f"no vertex {missing[0]!r} in loop {given.loop!r}")
        return 0
    columns = result.columns()
    for k, v in enumerate(columns["id"].tolist()):
        row = {name: columns[name][k].tolist() if columns[name].dtype != object
               else columns[name][k] for name in result.fields}  # fmt: skip
        _print_row(v, row, given)
    return 0


def _print_row(vertex: Any, row: dict[str, Any], given: argparse.Namespace) -> None:
    if given.field:
        if given.field not in row:
            raise InputError(f"no field {given.field!r}; there are: {', '.join(row)}")
        row = {given.field: row[given.field]}
    if given.json:
        print(json.dumps({"vertex": vertex, **row}, default=str))
    else:
        print(vertex, *(f"{k}={v}" for k, v in row.items()))


if __name__ == "__main__":
    sys.exit(main())
