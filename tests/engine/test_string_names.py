"""Names of string ids, as interpreted methods see them."""

from __future__ import annotations

import pickle
import random
from types import SimpleNamespace
from typing import Any

import networkx as nx
import pyarrow as pa
import pytest

from tests.support import seeds
from vertexsdk import Graph, Latest, MainLoop, Vertex, run, state
from vertexsdk.algorithms import StronglyConnectedComponents
from vertexsdk.engine.processor import names_of
from vertexsdk.graph.topology.id_codec import VertexName
from vertexsdk.graph.topology.string_ids import StringIds
from vertexsdk.state import open_store
from vertexsdk.transport.select import transport_for


def test_graphs_one_after_the_other_have_names_of_their_own() -> None:
    """A graph's names may be where those of one before it were in memory."""
    for k in range(50):
        ids = StringIds.of(pa.array([f"v{k}"], pa.large_string()))
        plan: Any = SimpleNamespace(names=transport_for(None).broadcast(ids))
        names = names_of(plan)
        assert names is not None
        assert names.decode(0) == f"v{k}"
        del plan, names


@pytest.mark.parametrize("partitions", [1, 3])
def test_complements_of_names_are_as_those_of_integers(partitions: int) -> None:
    seed = seeds.seed()
    rng = random.Random(seed)
    names = [f"v{k}" for k in range(12)]
    edges = sorted({(rng.choice(names), rng.choice(names)) for _ in range(24)})
    graph = Graph.from_arrays(*map(list, zip(*edges, strict=True)), partitions=partitions)
    components = list(nx.strongly_connected_components(nx.DiGraph(edges)))
    smallest = {v: min(c) for c in components for v in c}
    result = run(StronglyConnectedComponents, graph, backend="memory://c", compiled=False)
    assert result.to_dict() == smallest
    options: dict[str, Any] = {"backend": "memory://cl", "compiled": False}
    with MainLoop(StronglyConnectedComponents, graph, **options) as main:
        assert main.query().to_dict() == smallest


def test_a_name_is_a_string_wherever_it_goes() -> None:
    name = VertexName("a")
    assert type(pickle.loads(pickle.dumps(name))) is str
    assert ~~name == "a"
    assert sorted([~VertexName(x) for x in "bca"]) == [~VertexName(x) for x in "cba"]


class Labels(Vertex):
    """Keeps its own id as text."""

    label: str = state("")
    messages = Latest(int)

    def init(self):
        self.label = self.id

    def gather(self, iteration, source, delta):
        pass

    def scatter(self, iteration):
        pass


def test_a_name_is_stored_as_text() -> None:
    graph = Graph.from_arrays(["a", "b"], ["b", "a"])
    result = run(Labels, graph, backend="memory://labels", compiled=False)
    assert result.to_dict() == {"a": "a", "b": "b"}
    with open_store("memory://labels", create=False) as store:
        table = store.table(store.segments(result.manifest)[0])
        assert not table.is_pickled("label")
    result.close()
