"""A driver which takes in changes until it is killed; run it by `python -m`.

It says on standard output which batch was acknowledged. Whoever kills it knows what every batch
is, and so what must be in the store.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from vertexsdk.algorithms import ShortestPaths
from vertexsdk.graph.graph import Graph
from vertexsdk.loops.main_loop import MainLoop
from vertexsdk.state import StateError
from vertexsdk.transport.session import session

__all__ = ["LOOP", "OPTIONS", "batch", "edges_after"]

Edges = dict[tuple[int, int], float]
LOOP = "roads"
OPTIONS: dict[str, Any] = {"loop": LOOP, "snapshot_every": 40, "retain": 4}


def batch(number: int) -> list[tuple[Any, ...]]:
    """The changes of a batch: of any kind, of edges that are there and that are not."""
    rng = random.Random(number)
    rows = []
    for _ in range(rng.randint(1, 6)):
        a, b, x = rng.randrange(9), rng.randrange(9), float(rng.randint(1, 5))
        sign = rng.choice("++-~")
        rows.append((sign, a, b) if sign == "-" else (sign, a, b, x))
    return rows


def edges_after(last: int) -> Edges:
    """The edges when the batches up to `last` have been taken in, each once."""
    edges: Edges = {(0, 1): 1.0}
    for number in range(last + 1):
        for sign, a, b, *value in batch(number):
            if sign == "-":
                edges.pop((a, b), None)
            elif sign == "+" or (a, b) in edges:
                edges[a, b] = value[0]
    return edges


def main(url: str, *, on_spark: bool) -> None:
    """Go on from what is in the store, or begin; on Spark, or in this process."""
    spark: Any = session("local[1]", app="driver") if on_spark else None
    try:
        loop = MainLoop.resume(spark, ShortestPaths, backend=url, **OPTIONS)
    except StateError:  # there is none yet
        graph = Graph.from_arrays([0], [1], [1.0], spark=spark)
        loop = MainLoop(ShortestPaths, graph, params={"origin": 0}, backend=url, **OPTIONS)
    number = loop.offsets.get("s", -1)
    print("ready", flush=True)
    while True:
        if number >= 0:  # a source tells again what it was not told to forget
            loop.ingest(batch(number), source="s", offset=number)
        number += 1
        loop.ingest(batch(number), source="s", offset=number)
        print(number, flush=True)
        if number % 5 == 0:
            loop.query().close()
        if number % 7 == 0:
            branch = loop.fork()
            branch.result().close()
            branch.merge()
            branch.close(forget=True)


if __name__ == "__main__":
    main(sys.argv[1], on_spark="spark" in sys.argv[2:])
