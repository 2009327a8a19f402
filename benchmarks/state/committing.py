"""A PageRank run that commits every iteration against one that commits once, in turn.

Run as ``python -m benchmarks.state.committing GRAPH URL REPEATS``: prints one JSON object, with
the seconds of the loops (loading and compiling are not in them) and the bytes committed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import vertexsdk
from vertexsdk import session
from vertexsdk.algorithms.pagerank import PageRank
from vertexsdk.state import open_store

ITERATIONS = 30


def main() -> None:
    """Measure, and print."""
    source, url, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3])
    spark = session()
    graph = vertexsdk.Graph.read(spark, source, multi=True, partitions=1)
    found: dict[str, list[float]] = {"plain": [], "committed": [], "megabytes": []}

    def run(every: int | None) -> Any:
        result = vertexsdk.run(
            PageRank, graph, params={"iterations": ITERATIONS}, backend=url, commit_every=every,
            progress=False,
        )  # fmt: skip
        with open_store(url, create=False) as store:
            expected = list(range(1, ITERATIONS + 1)) if every else [ITERATIONS]
            assert store.versions(result.loop) == expected
        return result.statistics

    run(1)
    for _ in range(repeats):
        found["plain"].append(run(None)["seconds"])
        statistics = run(1)
        found["committed"].append(statistics["seconds"])
        found["megabytes"].append(statistics["backend_bytes"] / 1e6)
    print(json.dumps(found))
    graph.unpersist()
    spark.stop()


if __name__ == "__main__":
    main()
