"""The same program gives the same answers on executors of their own, and outlives one of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.clusters import Driver, await_executors
from vertexsdk.cli import main
from vertexsdk.state import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.cluster

VERTICES, EDGES = 300, 1500

PROGRAM = '''
import os
import signal
from pathlib import Path

from beside import step
from vertexsdk import Min, Vertex, VertexId, inf, param, state


class Steps(Vertex):
    """Edges from `origin`; the text makes it run interpreted."""

    origin: VertexId = param()
    steps: float = state(inf)
    label: str = state("")
    messages = Min(float)

    def gather(self, iteration, source, delta):
        self.steps = 0.0 if self.id == self.origin else delta.value
        self.label = f"{self.steps}"

    def scatter(self, iteration):
        self.emitAll(step(self.steps))


class Killer(Steps):
    """Ends the executor that `victim` is in when it is reached: once, or always without a mark."""

    victim: VertexId = param()
    mark: str = param()

    def gather(self, iteration, source, delta):
        reached = self.id == self.victim and delta.value < inf
        if reached and not (self.mark and Path(self.mark).exists()):
            Path(self.mark or "/dev/null").touch()
            stat = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
        self.steps = 0.0 if self.id == self.origin else delta.value

'''


def command(spark: SparkSession, *arguments: str) -> tuple[int, str]:
    """The command line in a driver: exit status, and what it printed on standard error."""
    import contextlib
    import io

    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = main(list(arguments))
    return status, said.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a graph and a stranger's program."""
    place = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(7)
    pairs = rng.integers(0, VERTICES, (EDGES, 2))
    (place / "edges.txt").write_text("".join(f"{s} {t}\n" for s, t in pairs))
    (place / "mine.py").write_text(PROGRAM)
    (place / "beside.py").write_text("def step(x):\n    return x + 1\n")
    return place


def run(driver: Driver, place: Path, program: str, *options: str) -> dict[str, str]:
    """Run a program there; what it wrote."""
    output = place / "out.csv"
    output.unlink(missing_ok=True)
    arguments = ["run", program, "--edges", str(place / "edges.txt"), "--output", str(output)]
    backend = f"lmdb://{place / 'state'}"
    status, said = driver.run(command, *arguments, "--backend", backend, *options)
    assert status == 0, said
    return dict(line.split(",") for line in output.read_text().split()[1:])


@pytest.fixture(scope="module")
def expected(place: Path) -> dict[str, dict[str, str]]:
    """What NetworkX says."""
    import networkx as nx

    graph = nx.read_edgelist(place / "edges.txt", create_using=nx.DiGraph)
    far = nx.single_source_shortest_path_length(graph, "1")
    components = nx.weakly_connected_components(graph)
    first = {v: str(min(map(int, c))) for c in components for v in c}
    return {"bfs": {v: str(float(far.get(v, "inf"))) for v in graph}, "wcc": first}


@pytest.mark.parametrize(
    ("driver", "partitions"),
    [("local_cluster", "2"), ("standalone_cluster", "1"), ("standalone_cluster", "7")],
    indirect=["driver"],
)
def test_the_same_answers(
    driver: Driver, place: Path, expected: dict[str, dict[str, str]], partitions: str
) -> None:
    options = ("--partitions", partitions)
    assert run(driver, place, "wcc", *options) == expected["wcc"]
    found = run(driver, place, f"{place}/mine.py:Steps", *options, "--param", "origin=1")
    assert found == expected["bfs"]


def test_one_partition_for_each_executor_by_default(driver: Driver, place: Path) -> None:
    import json

    run(driver, place, "wcc", "--stats", str(place / "s.json"))
    assert json.loads((place / "s.json").read_text())["partitions"] == 2


def test_string_ids(driver: Driver, place: Path, expected: dict[str, dict[str, str]]) -> None:
    words = place / "words.txt"
    lines = (place / "edges.txt").read_text().split("\n")
    words.write_text("\n".join(" ".join(f"v{v}" for v in line.split()) for line in lines))
    options = ("--edges", str(words), "--param", "origin=v1", "--output", str(place / "o.csv"))
    backend = ("--backend", f"lmdb://{place / 'words'}")
    status, said = driver.run(command, "run", f"{place}/mine.py:Steps", *options, *backend)
    assert status == 0, said
    found = dict(line.split(",") for line in (place / "o.csv").read_text().split()[1:])
    assert found == {f"v{v}": steps for v, steps in expected["bfs"].items()}


def test_an_executor_dies(
    standalone_cluster: Driver, place: Path, expected: dict[str, dict[str, str]]
) -> None:
    driver, mark = standalone_cluster, place / "killed"
    victim = next(v for v, steps in expected["bfs"].items() if steps == "3.0")
    params = ("--param", "origin=1", "--param", f"mark={mark}", "--param", f"victim={victim}")
    driver.run(await_executors)
    found = run(driver, place, f"{place}/mine.py:Killer", *params)
    assert mark.exists()
    assert found == expected["bfs"]


def test_an_executor_dies_every_time(
    standalone_cluster: Driver, place: Path, expected: dict[str, dict[str, str]]
) -> None:
    driver = standalone_cluster
    driver.run(await_executors)
    victim = next(v for v, steps in expected["bfs"].items() if steps == "3.0")
    params = ("--param", "origin=1", "--param", "mark=", "--param", f"victim={victim}")
    options = ("--edges", str(place / "edges.txt"), "--commit-every", "1", "--loop", "doomed")
    backend = f"lmdb://{place / 'doomed'}"
    program = f"{place}/mine.py:Killer"
    status, said = driver.run(command, "run", program, *options, *params, "--backend", backend)
    assert status == 1, said
    *notes, last = said.splitlines()
    # Which of them it is depends on what Spark notices first: the death of the processors, of the
    # tasks of a job, or that blocks, or the graph, went with the executor.
    lost = "|".join(
        [
            "a processor was lost with its partition(: .*)?",
            "an executor was lost: .*",
            "an executor was lost with its messages; run again from the last version",
            "partition . has lost its graph",
            ". of 2 partitions reported",
        ]
    )
    ends = f"({lost}); 3 tries failed, see whether executors die for lack of memory"
    repeated = "executors were lost repeatedly during the run; see the cluster's logs"
    assert re.fullmatch(f"vertexsdk: ({ends}|{repeated})", last), said
    assert len(notes) == len(set(notes)), "something was said twice"
    others = [note for note in notes if "mine.py" not in note and "no processors hold" not in note]
    assert all(note.startswith("vertexsdk: doomed: ") for note in others)
    with open_store(backend) as store:
        head = store.head("doomed")
        assert head is not None
        assert head.iteration == 3  # what was committed before stays readable
