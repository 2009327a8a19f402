"""`spark-submit ... --backend redis://...` on a standalone master with two workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pyspark
import pytest

import vertexsdk
from tests.support.clusters import standalone
from tests.support.servers import RedisServer
from vertexsdk.state import open_store

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_submitted_to_two_workers_with_redis(tmp_path: Path) -> None:
    pairs = np.random.default_rng(3).integers(0, 200, (300, 2))
    edges, output = tmp_path / "edges.txt", tmp_path / "out.csv"
    np.savetxt(edges, pairs, fmt="%d")
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    entry = str(Path(vertexsdk.__file__).parent / "__main__.py")
    with RedisServer(password="s3cret/p@ss") as server, standalone(workers=2) as master:
        command = [submit, "--master", master, entry, "run", "wcc", "--edges", str(edges)]
        command += ["--backend", server.url(), "--partitions", "2", "--output", str(output)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
        assert done.returncode == 0, done.stderr
        assert "s3cret" not in done.stdout + done.stderr
        with open_store(server.url()) as store:
            (loop,) = store.loops()
            assert {ref.key.partition for ref in store.segments(store.version(loop))} == {0, 1}
            assert "s3cret" not in json.dumps(store.version(loop).statistics)
            assert store.verify() == []
    graph = nx.Graph(map(tuple, pairs.tolist()))
    expected = {str(v): str(min(c)) for c in nx.connected_components(graph) for v in c}
    lines = output.read_text().split()
    assert dict(line.split(",") for line in lines[-len(expected) :]) == expected
