"""What goes wrong around a store is said in one line, and loses nothing that was committed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from tests.support.waiting import until
from vertexsdk.backends import _environment
from vertexsdk.errors import StateError, StateInputError
from vertexsdk.state import FormatError, FullError, Store, open_store

pytestmark = pytest.mark.full  # ends processes


def put(store: Store, iteration: int, rows: int = 10) -> None:
    """Commit a base of `rows` vertices whose value is the iteration."""
    columns = {"id": np.arange(rows), "value": np.full(rows, float(iteration))}
    ref = store.put_segment("loop", 0, iteration, "base", columns)
    parent = store.head("loop")
    store.commit("loop", iteration=iteration, segments=[ref], parent=parent)


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_wrong_urls(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for url, said in [
        ("nonsense", "write lmdb:///"),
        ("user:secret@host", "not a backend URL"),
        ("redos://user:secret@host/0", "only for lmdb, memory"),
        ("lmdb://", "has no directory"),
        (f"lmdb://{tmp_path}/s?map=x", "number of bytes"),
        (f"lmdb://{tmp_path}/s?mop=1", "no option 'mop'"),
        (f"lmdb://{file}", "is a file"),
        (f"lmdb://{file}/below", "is a file"),
        (f"lmdb:///proc/{'x' * 300}", "cannot be used|no store"),
    ]:
        with pytest.raises(StateInputError, match=said) as caught:
            open_store(url)
        assert caught.value.exit_status == 2
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)


def test_a_reader_makes_nothing(tmp_path: Path) -> None:
    for url in (f"lmdb://{tmp_path}/absent", f"lmdb://{tmp_path}", "memory://absent"):
        with pytest.raises(StateInputError, match=r"no store in|is not in this process"):
            open_store(url, create=False)
    assert os.listdir(tmp_path) == []


def test_other_formats_and_other_files_are_left_alone(tmp_path: Path) -> None:
    with open_store(f"lmdb://{tmp_path}/store") as store:
        put(store, 0)
    for text, said in [
        ("vertexsdk state, format 0\n", "format 0"),
        ("PNG", "was not written by a store"),
    ]:
        (tmp_path / "store" / "FORMAT").write_text(text)
        with pytest.raises(FormatError, match=said):
            open_store(f"lmdb://{tmp_path}/store")
    (tmp_path / "store" / "FORMAT").unlink()
    with pytest.raises(FormatError, match="holds other files"):
        open_store(f"lmdb://{tmp_path}/store")
    (tmp_path / "store" / "FORMAT").write_text("vertexsdk state, format 3\n")
    with open_store(f"lmdb://{tmp_path}/store") as store:
        assert store.versions("loop") == [0]


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:  # root, as in a container, is refused nothing
        patch.setattr(os, "makedirs", refuse)
        with pytest.raises(StateInputError, match="no permission"):
            open_store(f"lmdb://{tmp_path}/store")
    store = open_store(f"lmdb://{tmp_path}/store")
    monkeypatch.setattr(os, "makedirs", refuse)
    with pytest.raises(StateError, match="Permission denied"):
        put(store, 0)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
import numpy as np
from vertexsdk.state import FullError, open_store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = open_store(sys.argv[1])
store.claim("loop")
resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
parent, iteration = None, 0
try:
    while True:
        columns = {"id": np.arange(50_000), "value": np.full(50_000, float(iteration))}
        ref = store.put_segment("loop", 0, iteration, "base", columns)
        parent = store.commit("loop", iteration=iteration, segments=[ref], parent=parent)
        iteration += 1
except FullError as error:
    print(iteration - 1, error)
"""
    done = run(code, f"lmdb://{tmp_path}/store")
    last, _, said = done.stdout.partition(" ")
    assert "free some space" in said, done.stderr
    assert int(last) >= 3
    with open_store(f"lmdb://{tmp_path}/store", create=False) as store:
        assert store.versions("loop") == list(range(int(last) + 1))
        for iteration in (0, int(last)):
            ((_, state),) = store.read("loop", iteration)
            assert (state["value"] == float(iteration)).all()
        assert store.verify() == []
        put(store, int(last) + 1)


@pytest.mark.parametrize("when", ["put_segment", "commit"])
def test_no_space_at_each_write(tmp_path: Path, monkeypatch: Any, when: str) -> None:
    store = open_store(f"lmdb://{tmp_path}/store")
    put(store, 0)
    real = _environment.Environment.write

    def full(self: _environment.Environment, work: Any, *, frees: bool = False) -> Any:
        if self.path.endswith("catalog") != (when == "commit"):
            return real(self, work, frees=frees)

        def fails(txn: Any) -> None:
            work(txn)
            raise lmdb.DiskError("mdb_txn_commit: No space left on device")

        return real(self, fails)

    monkeypatch.setattr(_environment.Environment, "write", full)
    with pytest.raises(FullError, match="no room left"):
        put(store, 1)
    monkeypatch.undo()
    assert store.versions("loop") == [0]
    put(store, 1)
    assert store.versions("loop") == [0, 1]


def test_little_address_space(tmp_path: Path) -> None:
    code = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
import numpy as np
from vertexsdk.state import open_store
with open_store(sys.argv[1]) as store:
    for partition in range(16):
        ref = store.put_segment("loop", partition, 0, "base", {"id": np.arange(1 << 18)})
        assert len(store.segment(ref)["id"]) == 1 << 18
    store.commit("loop", iteration=0, segments=[ref])
"""
    done = run(code, f"lmdb://{tmp_path}/store")
    assert done.returncode == 0, done.stderr


def test_a_full_map_grows_or_says_why_not(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(_environment, "RESERVED", 1 << 19)
    store = open_store(f"lmdb://{tmp_path}/store")
    put(store, 0, rows=1000)
    ((_, held),) = store.read("loop")
    with pytest.raises(FullError, match="arrays read from it are in use"):
        put(store, 1, rows=60_000)
    assert (held["value"] == 0.0).all()
    del held
    store.close()
    store = open_store(f"lmdb://{tmp_path}/store")
    put(store, 1, rows=60_000)
    assert store.versions("loop") == [0, 1]


def test_forked_children_use_their_own_environment(tmp_path: Path) -> None:
    store = open_store(f"lmdb://{tmp_path}/store")
    put(store, 0, rows=50_000)
    ((_, held),) = store.read("loop")
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert held["value"][0] == 0.0  # what the parent read can be looked at
                with pytest.raises(StateError, match="before this process was forked"):
                    list(store.read("loop"))
                del held
                ((_, mine),) = store.read("loop")
                ref = store.put_segment("loop", number, 1, "base", {"id": np.arange(1000)})
                assert len(store.segment(ref)["id"]) == 1000
                assert (mine["value"] == 0.0).all()
                del mine
                store.close()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert (held["value"] == 0.0).all()
    assert len(list(store.backend.list_segments())) == 5
    put(store, 1)
    assert store.verify() == []
    store.close()


def test_a_child_that_ends_leaves_the_parents_snapshot(tmp_path: Path) -> None:
    """The parent's reader slot must survive a child, or its pages would be used again."""
    store = open_store(f"lmdb://{tmp_path}/store")
    columns = {"id": np.arange(50_000), "value": np.ones(50_000)}
    ref = store.put_segment("loop", 0, 0, "base", columns)
    held = store.segment(ref)["value"]
    child = os.fork()
    if child == 0:
        del held
        store.close()
        os._exit(0)
    os.waitpid(child, 0)
    store.backend._delete_segments([ref.key])  # type: ignore[attr-defined]
    for iteration in range(10):
        store.put_segment("loop", 0, iteration, "base", {**columns, "value": np.zeros(50_000)})
    assert (held == 1.0).all()


def test_memory_is_gone_with_its_owner() -> None:
    code = """
import os, signal, sys
import numpy as np
from vertexsdk.state import open_store
store = open_store("memory://runs")
assert open_store("memory://runs").backend.location == store.backend.location
store.put_segment("loop", 0, 0, "base", {"id": np.arange(10)})
print(store.backend.location, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""
    for end in ("normal", "killed"):
        location = run(code, end).stdout.strip()
        directory = location.partition("?directory=")[2]
        assert location.startswith("memory://runs?")
        swept = until(lambda place=directory: not os.path.exists(place))  # type: ignore[misc]
        assert swept  # by its sweeper, a moment later
        with pytest.raises(StateInputError, match="ends with the process that made it"):
            open_store(location)
