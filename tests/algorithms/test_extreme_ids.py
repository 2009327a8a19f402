"""Ids at the ends of int64 are ids like others, and an option that is left out is None."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import pytest

from vertexsdk import (
    Graph,
    InputError,
    Latest,
    MainLoop,
    RunError,
    Vertex,
    VertexId,
    param,
    run,
    state,
)

IDS = [-(2**63), -1, 0, 1, 2**63 - 2, 2**63 - 1]
SOURCE, TARGET = [0, 1, 2, 5, 3, 4], [1, 2, 0, 3, 5, 5]
BACKEND = "memory://extreme"


def answer(name: str, ids: list[int], compiled: bool | Literal["require"], **params: Any) -> Any:
    source, target = ([ids[k] for k in ends] for ends in (SOURCE, TARGET))
    graph = Graph.from_arrays(source, target, partitions=2)
    with run(name, graph, params=params, compiled=compiled, backend=BACKEND) as result:
        return [*result.to_dict().values()]


@pytest.mark.sample(6)
@pytest.mark.parametrize("compiled", [False, "require"])
@pytest.mark.parametrize("place", [0, 5])
@pytest.mark.parametrize(
    ("name", "option"), [("pagerank", "personalise"), ("walks", "origin"), ("bfs", "origin")]
)
def test_options_that_name_a_vertex(
    name: str, option: str, place: int, compiled: bool | Literal["require"]
) -> None:
    more = {"length": 1} if name == "walks" else {}
    wanted = answer(name, [*range(6)], compiled, **{option: place}, **more)
    assert answer(name, IDS, compiled, **{option: IDS[place]}, **more) == wanted
    if name != "bfs":
        absent = answer(name, IDS, compiled, **{option: None}, **more)
        assert absent == answer(name, IDS, compiled, **more) != wanted


@pytest.mark.parametrize("name", ["wcc", "betweenness", "closeness", "kcore", "matching"])
def test_values_of_vertices_at_the_ends(name: str) -> None:
    wanted = answer(name, [*range(6)], False)
    if name == "wcc":
        wanted = [IDS[k] for k in wanted]
    if name == "matching":  # draws for each id
        assert {*answer(name, IDS, False)} <= {*IDS}
    else:
        assert answer(name, IDS, False) == wanted


@pytest.mark.parametrize("compiled", [False, "require"])
@pytest.mark.parametrize(("name", "refused"), [("scc", 0), ("cdlp", 5)])
def test_the_one_id_that_a_program_cannot_send_is_refused(
    name: str, refused: int, compiled: bool | Literal["require"]
) -> None:
    ids = [*IDS]
    ids[refused] += 1 if refused == 0 else -1
    ids[4] = min(ids[4], ids[5] - 1)
    assert answer(name, ids, compiled) == [ids[k] for k in answer(name, [*range(6)], compiled)]
    with pytest.raises(RunError, match="relabel that vertex"):
        answer(name, IDS, compiled)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_as_values_are_written_as_ids(tmp_path: Path, suffix: str) -> None:
    path = str(tmp_path / f"out.{suffix}")
    with run("wcc", Graph.from_arrays(IDS[:2], IDS[:2]), backend=BACKEND) as result:
        result.write(path)
    if suffix == "csv":
        assert Path(path).read_text() == f"vertex,value\n{IDS[0]},{IDS[0]}\n-1,-1\n"
    else:
        assert pq.read_table(path)["value"].to_pylist() == IDS[:2]


@pytest.mark.parametrize("jump", [-0.5, float("nan"), float("inf"), 1.5])
def test_jumps_that_are_no_probabilities_are_refused(jump: float) -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 1])
    graph = graph.with_attributes({"id": [1, 2], "jump": [1 - jump, jump]})
    with pytest.raises(InputError, match=r"column jump: .* is not in \[0, 1\]"):
        run("ppr", graph, backend=BACKEND)
    with pytest.raises(InputError, match=r"column jump: .* is not in \[0, 1\]"):
        MainLoop("ppr", graph, backend=BACKEND)


class Near(Vertex):
    """Whether a vertex is `origin`; with none, whether its id is even."""

    origin: VertexId | None = param(None)
    limit: int | None = param(None)
    near: int = state(0)

    messages = Latest(int)

    def init(self) -> None:
        if self.origin is not None and self.id == self.origin:
            self.near = 1
        if self.limit is None:
            self.near += 10
        elif self.near < self.limit:
            self.near += 100

    def gather(self, iteration: int, source: int, delta: Any) -> None:
        pass

    def scatter(self, iteration: int) -> None:
        pass


@pytest.mark.sample(1)
@pytest.mark.parametrize("compiled", [False, "require"])
@pytest.mark.parametrize("ids", [[3, 4], ["a", "b"]])
def test_parameters_that_are_left_out(ids: list[Any], compiled: bool | Literal["require"]) -> None:
    graph = Graph.from_arrays(ids[:1], ids[1:])
    for params, wanted in (
        ({}, [10, 10]), ({"origin": ids[1]}, [10, 11]), ({"limit": 1}, [100, 100]),
        ({"origin": ids[0], "limit": 1}, [1, 100]), ({"origin": None, "limit": None}, [10, 10]),
    ):  # fmt: skip
        with run(Near, graph, params=params, compiled=compiled, backend=BACKEND) as result:
            assert [*result.to_dict().values()] == wanted
        with MainLoop(Near, graph, params=params, compiled=compiled, backend=BACKEND) as main:
            assert [*main.query().to_dict().values()] == wanted
    with pytest.raises(InputError, match="is not a vertex of the graph"):
        run(Near, graph, params={"origin": "None"}, compiled=compiled, backend=BACKEND)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("ids", [[0, 1, 2], ["0", "1", "2"], ["0", "b", "c"]])
def test_a_parameter_that_names_a_vertex_in_text_is_the_same_after_resume(
    ids: list[Any], partitions: int
) -> None:
    backend = f"memory://named-{ids[0]!r}-{ids[1]!r}-{partitions}"
    wanted = dict(zip(ids, [0.0, 1.0, 2.0], strict=True))
    for origin in ("0", 0):
        graph = Graph.from_arrays(ids[:1], ids[1:2], partitions=partitions)
        with MainLoop("sssp", graph, params={"origin": origin}, backend=backend, replace=True) as m:
            m.ingest([("+", ids[1], ids[2], 1.0)])
            assert m.query().to_dict() == wanted
        with MainLoop.resume(None, "sssp", backend=backend) as again:
            assert again.query().to_dict() == wanted
