"""Large segments of a directory's store are files: whole or absent, also when their writer dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vertexsdk.backends import _files
from vertexsdk.backends._files import LARGE, Files
from vertexsdk.state import FullError, SegmentKey, open_store
from vertexsdk.state.contract import LONGEST_NAME, new_attempt

NAMES = ["a", "A", "..", "x" * 120, "x" * 121, "x" * LONGEST_NAME, "\u00e4" * (LONGEST_NAME // 2)]
DIE = """
import os, signal, stat, sys
from vertexsdk.backends._files import Files
from vertexsdk.state import SegmentKey
def die(descriptor):
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.kill(os.getpid(), signal.SIGKILL)
os.fsync = die
key = SegmentKey("loop", 0, 0, sys.argv[2])
Files(sys.argv[1], True).put(key, [bytes(1 << 20)])
"""


def test_each_loop_has_its_own(tmp_path: Path) -> None:
    files = Files(str(tmp_path / "large"), sync=False)
    keys = [SegmentKey(name, 3, 7, new_attempt()) for name in NAMES]
    for number, key in enumerate(keys):
        files.put(key, [bytes([number])] * 2)
    assert set(files.keys()) == set(keys)
    for number, key in enumerate(keys):
        assert list(files.keys(key.loop)) == [key]
        found = files.get(key)
        assert found is not None
        assert found.tobytes() == bytes([number]) * 2
    files.delete(keys[::2])
    assert set(files.keys()) == set(keys[1::2])
    assert files.get(keys[0]) is None


def test_what_was_read_stays_when_it_is_dropped(tmp_path: Path) -> None:
    rows = LARGE // 8
    with open_store(f"lmdb://{tmp_path}/store") as store:
        parent = None
        for iteration in range(2):
            columns = {"id": np.arange(rows), "value": np.full(rows, float(iteration))}
            ref = store.put_segment("loop", 0, iteration, "base", columns)
            parent = store.commit("loop", iteration=iteration, segments=[ref], parent=parent)
        ((_, held),) = store.read("loop", 0)
        store.prune("loop", 1)
        assert (held["value"] == 0.0).all()
        assert [key.iteration for key in store.backend.list_segments()] == [1]
        assert (dict(store.read("loop"))[0]["value"] == 1.0).all()
        store.delete("loop")
        assert list(store.backend.list_segments()) == []
        assert store.backend.size() < LARGE


@pytest.mark.full
def test_a_writer_that_dies_leaves_what_a_collection_removes(tmp_path: Path) -> None:
    attempt = new_attempt()
    with open_store(f"lmdb://{tmp_path}") as store:
        folder = f"{tmp_path}/large"
        died = subprocess.run([sys.executable, "-c", DIE, folder, attempt], timeout=120)
        assert died.returncode == -signal.SIGKILL
        left = SegmentKey("loop", 0, 0, attempt)
        assert store.backend.get_segment(left) is None
        assert list(store.backend.list_segments("loop")) == [left]
        assert store.collect(0, alone=True).segments == 1
        assert list(store.backend.list_segments()) == []
        assert sum(len(files) for _, _, files in os.walk(folder)) == 0


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) < 1 << 19:
            raise OSError(28, "No space left on device")
        return written(descriptor, data[: len(data) // 2])

    with open_store(f"lmdb://{tmp_path}") as store:
        monkeypatch.setattr(_files.os, "write", half)
        with pytest.raises(FullError, match="free some space"):
            store.put_segment("loop", 0, 0, "base", {"id": np.arange(LARGE // 8)})
        monkeypatch.undo()
        assert list(store.backend.list_segments()) == []


def test_older_versions_leave_the_cache_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[str] = []

    def advise(descriptor: int, *_: int) -> None:
        dropped.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(_files.os, "posix_fadvise", advise)
    files = Files(str(tmp_path / "large"), sync=True)
    keys = [SegmentKey("loop", p, i, new_attempt()) for i in range(4) for p in range(2)]
    for key in keys:
        files.put(key, [b"x"])
        if key.iteration == 2:
            files.delete([key])  # which is no mistake
    assert [name.split("-")[:2] for name in dropped] == [
        [f"{p}", f"{i}"] for i in (0, 1) for p in (0, 1)
    ]
    for key in keys:
        assert (files.get(key) is None) == (key.iteration == 2)
