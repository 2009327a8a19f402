"""`vertexsdk serve` keeps a stateful class and takes calls, `vertexsdk call` makes them."""

from __future__ import annotations

import argparse
import contextlib
import csv
import difflib
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vertexsdk.cli._stream_command import stopped_by_signals
from vertexsdk.cli._text import text_of
from vertexsdk.errors import CallError, InputError, RunError
from vertexsdk.loops.find_program import load_class
from vertexsdk.state import open_store
from vertexsdk.state.address import address_or_default
from vertexsdk.stateful.call_stream import argument_of, arguments_of_files
from vertexsdk.stateful.stateful import Stateful
from vertexsdk.stateful.stateful_client import ClientCalls, StatefulClient
from vertexsdk.stateful.stateful_loop import StatefulLoop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.2  # between looks at whether a stream has failed


def stateful_class(text: str) -> type[Stateful]:
    """Return the stateful class that `module:Class` or `path.py:Class` names.

    Raises:
        InputError: there is none.
    """

    def accepts(value: Any) -> bool:
        return isinstance(value, type) and issubclass(value, Stateful) and value is not Stateful

    cls: type[Stateful] = load_class(text, accepts, "Stateful")
    return cls


def feeds_of(texts: Sequence[str], cls: type[Stateful]) -> list[tuple[str, str]]:
    """Return the method and the files of each METHOD=FILES.

    Raises:
        InputError: one is of another form, or the class has no such method.
    """
    feeds = []
    methods = [
        name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name))
    ]
    for text in texts:
        method, equals, files = text.partition("=")
        if not equals or not files:
            raise InputError(f"--feed {text}: write it as METHOD=FILES, as --feed 'add=logs/*.txt'")
        if method not in methods:
            near = difflib.get_close_matches(method, methods, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ";"
            raise InputError(
                f"--feed {text}: {cls.__name__} has no method {method!r}{meant} its methods are "
                f"{', '.join(methods)}"
            )
        feeds.append((method, files))
    return feeds


def serve(args: argparse.Namespace, cls: type[Stateful], spark: SparkSession | None) -> None:
    """Take calls until Ctrl-C or SIGTERM, or until a feed fails; then take a snapshot.

    Raises:
        VertexError: the loop cannot be opened or goes to another process, or a feed fails.
    """
    ended, feeds = threading.Event(), feeds_of(args.feed, cls)
    with stopped_by_signals(ended.set), _loop(args, cls, spark) as flow:
        streams = [
            getattr(flow, method).start(files, follow=args.follow) for method, files in feeds
        ]
        flow.serve(args.listen)
        print(f"{flow.loop}: takes calls; Ctrl-C ends it with a snapshot", file=sys.stderr)
        while not ended.wait(_LOOK_SECONDS):
            for stream in streams:
                if stream.exception is not None:
                    raise stream.exception
            if "state" in flow.progress():
                flow.snapshot()  # says why it is closed
        for stream in streams:
            stream.stop()
        fed = [f"{method}: {stream.progress()}" for (method, _), stream in zip(
            feeds, streams, strict=True)]  # fmt: skip
        calls = flow.progress()["calls"]
    print("; ".join([f"{flow.loop}: {calls:,} calls have changed state", *fed]), file=sys.stderr)


def _loop(
    args: argparse.Namespace, cls: type[Stateful], spark: SparkSession | None
) -> StatefulLoop:
    """Return the loop: resumed from the store with --resume, else a new one."""
    options: dict[str, Any] = {
        "backend": args.backend, "loop": args.loop, "partitions": args.partitions, "spark": spark,
        "snapshot_every": args.snapshot_every,
    }  # fmt: skip
    if args.resume and args.replace:
        raise InputError("--resume continues what --replace drops: leave out one of the two")
    if args.resume:
        name = args.loop or cls.__name__
        with open_store(address_or_default(args.backend)) as store:
            known = store.head(name) is not None
        if known:
            return StatefulLoop.resume(cls, **options)
        print(f"{name}: not in the store yet; starting without state", file=sys.stderr)
    return StatefulLoop(cls, replace=args.replace, **options)


def call(args: argparse.Namespace) -> None:
    """Call a method, and print its answer; or make the calls of files.

    Raises:
        InputError: no process takes the calls, or arguments are not those of the method.
        CallError, RunError: a call raised, or the process has ended.
    """
    if args.file and args.arguments:
        raise InputError("--file has the arguments of the calls: leave out those before it")
    if args.output and not args.file:
        raise InputError("--output is for --file: add it, or leave out --output")
    backend = address_or_default(args.backend)
    with StatefulClient(args.loop, backend=backend, timeout=args.timeout) as client:
        calls = client[args.method]
        if args.file:
            _call_files(args, calls)
            return
        parameters = calls.method.parameters
        texts = args.arguments[: len(parameters)]
        values = [argument_of(p, text) for p, text in zip(parameters, texts, strict=False)]
        _print(calls(*values, *args.arguments[len(parameters) :]), args.json)


def _print(answer: Any, as_json: bool) -> None:
    if as_json or isinstance(answer, list | dict | bool):
        print(json.dumps(answer, default=text_of))
    elif answer is not None:
        print(text_of(answer))


def _cell(value: Any) -> Any:
    """Return what a CSV file has for a value."""
    if isinstance(value, list | dict):
        return json.dumps(value, default=text_of)
    return text_of(value) if isinstance(value, bytes) else value


def _call_files(args: argparse.Namespace, calls: ClientCalls) -> None:
    made, failed = 0, list[str]()
    names = [p.name for p in calls.method.parameters]
    with _writer(args.output) as write:
        if write is not None:
            write.writerow([*names, "answer", "error"])
        for columns, texts in arguments_of_files([args.file], calls.name, calls.method):
            for text in texts:
                print(f"vertexsdk: {text}; skipped", file=sys.stderr)
            answers = calls.map(*columns, return_exceptions=True) if columns[0] else []
            made += len(answers)
            failed += [str(answer) for answer in answers if isinstance(answer, CallError)]
            for row, answer in zip(zip(*columns, strict=True), answers, strict=True):
                error = str(answer) if isinstance(answer, CallError) else ""
                if write is not None:
                    cells = [*row, "" if error else answer, error]
                    write.writerow(map(_cell, cells))
                elif not error:
                    _print(answer, args.json)
    if failed:
        raise RunError(f"{len(failed):,} of {made:,} calls raised, the first: {failed[0]}")


@contextlib.contextmanager
def _writer(path: str | None) -> Iterator[Any]:
    """Yield what writes rows to a CSV file; None without one."""
    if path is None:
        yield None
        return
    if not path.endswith(".csv"):
        raise InputError(f"--output {path}: answers are written as CSV: name a .csv file")
    try:
        with open(path, "w", newline="") as file:
            yield csv.writer(file, lineterminator="\n")
    except OSError as error:
        raise InputError(f"--output {path}: {error.strerror}; choose another file") from None
