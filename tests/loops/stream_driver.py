"""A stream of change files with a query every few changes, in a process that may be killed."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from vertexsdk.algorithms import ShortestPaths
from vertexsdk.cli._stream_command import StreamSession
from vertexsdk.graph.changes import change_files
from vertexsdk.graph.graph import Graph
from vertexsdk.loops.main_loop import MainLoop
from vertexsdk.state import StateError

EVERY = 7


def main(url: str, *paths: str) -> None:
    """Go on with what is in the store, or begin; write the answer of query k to OUT-k.csv."""
    change_files._BLOCK = 64
    stream = StreamSession(paths, query_every=EVERY)
    options: dict[str, Any] = {"backend": url, "snapshot_every": 50, "retain": 4}
    try:
        loop = MainLoop.resume(None, ShortestPaths, **options)
    except StateError:  # there is none yet
        graph = Graph.from_arrays([0], [1], [1.0])
        loop = MainLoop(ShortestPaths, graph, params={"origin": 0}, **options)
    print("ready", flush=True)
    for result in stream.answers(loop):
        with contextlib.closing(result):
            result.write(f"out-{stream.queries}.csv")
    loop.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
