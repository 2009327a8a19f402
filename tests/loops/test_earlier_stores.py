"""Loops that were written before modules and classes had their present names, and upgraded."""

from __future__ import annotations

import tarfile
from pathlib import Path

from pyspark.sql import SparkSession

from vertexsdk import MainLoop, Vertex, state
from vertexsdk.cli import main as main_command

STORE = Path(__file__).parent / "data" / "events-store-before-rooms.tar.gz"


class Recorder(Vertex):
    """Writes down all that it is told; the store was written by such a program."""

    log: str = state("")

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        self.log += f" {source},{delta.kind},{delta.value}"

    def scatter(self, iteration):
        pass


def test_a_loop_of_events_is_resumed(spark: SparkSession, tmp_path: Path) -> None:
    """It has pickles: vertices at a checkpoint, and a delta that came after it."""
    with tarfile.open(STORE) as archive:
        archive.extractall(tmp_path, filter="data")
    assert main_command(["state", "upgrade", "--backend", f"lmdb://{tmp_path}"]) == 0
    with MainLoop.resume(spark, Recorder, backend=f"lmdb://{tmp_path}", trusted=True) as main:
        logs = {v: row["log"] for v, row in main.query().rows()}
    assert logs == {
        "a": " a,1,b None,NOTE,{'x': 1} a,1,c",
        "b": " b,1,c None,LATER,5",
        "c": "",
    }
