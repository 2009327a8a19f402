"""What `Graph.estimate` says: memory beside a process that runs, counts beside a run.

Seconds depend on what else the machine does: `./dev bench estimates` compares them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support import seeds
from vertexsdk import Graph, InputError, Min, RunError, Vertex, VertexId, inf, param, run, state
from vertexsdk.loops import estimate

# Prints the most memory that a process had which ran a program, in bytes.
CHILD = """
import sys
from vertexsdk import Graph, run
graph = Graph.read(sys.argv[1])
run(sys.argv[2], graph, backend="memory://", **eval(sys.argv[3])).close()
status = open("/proc/self/status").read()
print(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
"""


def write_edges(path: Path, edges: int, degree: int, rng: np.random.Generator) -> Path:
    """Write random edges; few vertices have many, as in networks of people."""
    n = edges // degree
    table = pa.table(
        {
            "source": (rng.random(edges) ** 2 * n).astype(np.int64),
            "target": rng.integers(0, n, edges),
            "value": rng.random(edges),
        }
    )
    pq.write_table(table, path, row_group_size=1 << 18)
    return path


@pytest.mark.parametrize(
    ("program", "params", "edges", "degree"),
    [
        ("pagerank", {}, 100_000, 10),
        ("sssp", {"origin": 0}, 6_000_000, 6),
    ],
)
@pytest.mark.full
def test_memory_is_what_a_process_needs(
    program: str, params: dict[str, Any], edges: int, degree: int, tmp_path: Path
) -> None:
    seed = seeds.seed()
    path = write_edges(tmp_path / "edges.parquet", edges, degree, np.random.default_rng(seed))
    child = subprocess.run(
        [sys.executable, "-c", CHILD, path, program, repr(params)],
        capture_output=True, text=True, check=True, env={**os.environ}, timeout=240,
    )  # fmt: skip
    needed = int(child.stdout)
    estimate = Graph.read(str(path)).estimate(program, params)
    assert needed / 1.5 < estimate.bytes_per_processor < needed * 1.5
    assert estimate.edges == pytest.approx(edges, rel=0.05)
    assert estimate.vertices == pytest.approx(edges / degree, rel=0.25)


def test_a_small_graph_is_counted_and_run_as_it_is() -> None:
    graph = Graph.from_arrays(["a", "b", "c"], ["b", "c", "d"])
    estimate = graph.estimate("bfs", origin="a")
    with run("bfs", graph, origin="a", backend="memory://small") as result:
        assert estimate.iterations == result.statistics["iterations"]
    assert (estimate.edges, estimate.vertices, estimate.sampled) == (3, 4, 3)
    assert 0 < estimate.seconds < 60
    assert estimate.fits


def test_a_text_file_is_sampled_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "ring.txt"
    n = 1_200_000
    ring = np.arange(n)
    lines = pa.table({"source": ring, "target": (ring + 1) % n})
    import pyarrow.csv as csv

    csv.write_csv(lines, path, csv.WriteOptions(include_header=False, delimiter=" "))
    estimate = Graph.read(str(path)).estimate("degree")
    assert estimate.edges == pytest.approx(n, rel=0.05)
    assert estimate.vertices == pytest.approx(n, rel=0.05)
    assert estimate.sampled < n


def test_a_graph_on_spark(spark: SparkSession) -> None:
    rows = [(k, (7 * k + 3) % 500) for k in range(1000)]
    frame = spark.createDataFrame(rows, ["source", "target"])
    graph = Graph.from_dataframe(frame, partitions=2)
    estimate = graph.estimate("wcc")
    assert (estimate.edges, estimate.processors, estimate.limit) == (1000, 2, None)
    assert estimate.vertices == 1000
    assert estimate.fits
    graph.unpersist()


def test_a_wrong_parameter_and_a_program_that_fails() -> None:
    graph = Graph.from_arrays([1, 2], [2, 3])
    with pytest.raises(InputError, match="did you mean damping"):
        graph.estimate("pagerank", dampin=0.9)
    with pytest.raises(InputError, match="give a value for origin"):
        graph.estimate("sssp")

    class Fails(Vertex):
        origin: VertexId = param()
        x: float = state(inf)
        messages = Min(float)

        def gather(self, iteration: int, source: Any, delta: Any) -> None:
            self.x = {}[self.id]

        def scatter(self, iteration: int) -> None:
            self.emitAll(self.x)

    with pytest.raises(RunError, match=r"Fails\.gather: KeyError"):
        graph.estimate(Fails, origin=1, compiled=False)


def test_growth_is_continued() -> None:
    """Of a path, each sample of which needs as many iterations as it has edges."""
    probes = [
        estimate._Probe(edges, edges * 1e-6, 0.0, edges, float(edges) ** 2)
        for edges in (100, 1000, 10_000)
    ]
    assert estimate._iterate_seconds(100_000, probes) == pytest.approx(0.01 * 10**2)


def test_the_limit_of_the_container_is_kept_in_mind() -> None:
    figures = estimate.Estimate("wcc", 1, 2, 1, 4 << 30, 1.0, 1.0, 3, 0.0, 1, 2 << 30)
    assert not figures.fits
    assert "4.0 GiB of 2.0 GiB: too much" in repr(figures)
