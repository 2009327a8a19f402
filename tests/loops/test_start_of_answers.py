"""Programs whose answer depends on where it starts: each answer is that of a run from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.engine.programs import Alternating, Hops, Lengths, Rising, Sinking
from tests.support.reference import reference
from vertexsdk import Graph, MainLoop, Vertex
from vertexsdk.algorithms import BreadthFirstSearch

Row = tuple[Any, ...]


class Nearby(BreadthFirstSearch):
    """Depths to 3."""

    max_iterations = 3


SWAP = [(1, 2), (2, 1)]
PATH = [(k, k + 1) for k in range(9)]
# Program, origin, edges, and batches of changes; a value of an edge is 1 where none is named.
CASES: dict[str, tuple[type[Vertex], int, Sequence[Row], Sequence[Sequence[Row]]]] = {
    # 1 (or 2) says nothing any more, and what it said last must not be heard.
    "silent": (Hops, 0, [(0, 2), (1, 0), (2, 1)], [[("-", 0, 2)]]),
    "withdrawn": (Hops, 0, [(0, 1), (1, 2), (2, 1)], [[("-", 0, 1), ("+", 0, 9)]]),
    "withdrawn-edges": (Lengths, 0, [(0, 1), (1, 2), (2, 1)], [[("-", 0, 1), ("+", 0, 9)]]),
    # 2 counts up to 20; later it hears itself, and stays at 9.
    "worse": (Sinking, 0, [(0, 1), (2, 0)], [[("+", 2, 2)], [("+", 2, 1)]]),
    # 2 counts up beside 0, which is better; 2 is what 3 hears when 0 goes.
    "worse-beside-better": (Rising, 0, [(0, 3, 1), (2, 3, 1)], [[("+", 2, 2, 0)], [("-", 0, 3)]]),
    # 2 has 20 when the edge to itself comes, as nobody hears of it before.
    "worse-unheard": (Sinking, 0, [(0, 1), (0, 2)], [[("+", 2, 2)], [("-", 0, 2)]]),
    # 6 counts up only when the loop has ended once: a new vertex.
    "worse-new": (Sinking, 0, [(0, 1)], [[("+", 6, 0)], [("+", 6, 6)]]),
    "limited": (Nearby, 0, PATH, [[("+", 0, 9)], [("-", 0, 1), ("+", 9, 1)]]),
    # 1 is reached first by the long way; then 2 is, by the new edge.
    "not-monotone": (Alternating, 9, [(9, 8), (8, 7), (7, 1), *SWAP], [[("+", 9, 2)]]),
}
WAYS = {"in-place": (1, "require"), "recomputed": (1, False), "partitions": (2, False)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sample(2)
def test_answers_do_not_depend_on_those_before(
    case: str, way: str, spark_or_none: SparkSession | None
) -> None:
    program, origin, rows, batches = CASES[case]
    partitions, compiled = WAYS[way]
    edges = {(a, b): float(x[0]) if x else 1.0 for a, b, *x in rows}
    columns = zip(*((a, b, x) for (a, b), x in edges.items()), strict=True)
    graph = Graph.from_arrays(*columns, spark=spark_or_none, partitions=partitions)
    options: Any = {"compiled": compiled, "backend": f"memory://{case}-{way}"}
    with MainLoop(program, graph, params={"origin": origin}, **options) as main:
        main.query(timeout=60).close()
        for batch in batches:
            main.ingest(batch)
            for sign, a, b, *x in batch:
                if sign == "-":
                    del edges[a, b]
                else:
                    edges[a, b] = float(x[0]) if x else 1.0
            wanted = reference(
                program, [(a, b, x) for (a, b), x in edges.items()], [origin], {"origin": origin}
            )
            [field] = wanted.state[origin]
            assert main.query(timeout=60).to_dict() == wanted.values(field)
