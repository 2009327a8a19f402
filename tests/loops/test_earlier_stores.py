"""Loops that earlier versions wrote: other names of modules and classes, other places."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from vertexsdk import MainLoop, Vertex, state
from vertexsdk.algorithms import ShortestPaths
from vertexsdk.cli import main as main_command
from vertexsdk.state import open_store

DATA = Path(__file__).parent / "data"


class Recorder(Vertex):
    """Writes down all that it is told; the stores were written by such a program."""

    log: str = state("")

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        self.log += f" {source},{delta.kind},{delta.value}"

    def scatter(self, iteration):
        pass


def unpacked(name: str, place: Path) -> str:
    """The URL of a store, from an archive of it."""
    with tarfile.open(DATA / name) as archive:
        archive.extractall(place, filter="data")
    return f"lmdb://{place}"


def test_a_loop_of_events_is_resumed(spark: SparkSession, tmp_path: Path) -> None:
    """It has pickles: vertices at a checkpoint, and a delta that came after it."""
    url = unpacked("events-store-before-rooms.tar.gz", tmp_path)
    assert main_command(["state", "upgrade", "--backend", url]) == 0
    with MainLoop.resume(spark, Recorder, backend=url, trusted=True) as main:
        logs = {v: row["log"] for v, row in main.query().rows()}
    assert logs == {
        "a": " a,1,b None,NOTE,{'x': 1} a,1,c",
        "b": " b,1,c None,LATER,5",
        "c": "",
    }


@pytest.mark.parametrize(("loop", "kind"), [("numbers", int), ("names", "v{}".format)])
def test_vertices_placed_by_another_hash_are_restored(loop: str, kind, tmp_path: Path) -> None:
    """In three partitions; each had vertices that are another's now."""
    url = unpacked("store-before-key-groups.tar.gz", tmp_path)
    path = [kind(k) for k in range(40)]
    logs = {v: f" {v},1,{w}" for v, w in zip(path, path[1:], strict=False)}
    logs |= {path[3]: f" {path[3]},1,{path[4]} {path[3]},1,{path[30]}", path[39]: ""}
    for _ in range(2):  # the second time what the first wrote
        with MainLoop.resume(None, Recorder, loop=loop, backend=url, trusted=True) as main:
            assert {v: row["log"] for v, row in main.query().rows()} == logs
            main._history.take_snapshot()


def test_states_placed_by_another_hash_are_looked_up(tmp_path: Path) -> None:
    """Before the loop is resumed, after that, and after its next answer."""
    url = unpacked("store-before-key-groups.tar.gz", tmp_path)
    lengths = {k: {"length": float(min(k, k - 19.5 if k >= 20 else k))} for k in range(40)}
    lengths[100] = {"length": 2.5}
    with open_store(url) as store:
        assert store.lookup("paths", [*lengths, 41]) == lengths
    with MainLoop.resume(None, ShortestPaths, loop="paths", backend=url) as main:
        seen = main.lookup(list(lengths))
        assert {v: row["length"] for v, row in seen.items()} == {
            v: row["length"] for v, row in lengths.items()
        }
        main.ingest([("-", 20, 100)])
        main.query().close()
        del lengths[100]
        assert main._history.store.lookup("paths", [*lengths, 100]) == lengths
