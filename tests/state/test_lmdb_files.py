"""LMDB files that were cut short or lost, and disks that are full: refused or lived with."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from vertexsdk.backends._environment import open_environment
from vertexsdk.state import CorruptError, Store, open_store

READ = """
import sys
from vertexsdk.state import open_store
from vertexsdk.errors import VertexError
try:
    with open_store(sys.argv[1], create=False) as store:
        print(store.verify(), store.collect(0, alone=True), store.versions("loop"))
except VertexError as error:
    print("refused:", error)
"""

FULL = """
import os, resource, sys
import numpy as np
from vertexsdk.state import FullError, open_store

url, limit, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = open_store(url)
store.claim("loop")
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
iteration = 0

def commit():
    global iteration
    columns = {"id": np.arange(rows), "value": np.full(rows, float(iteration))}
    ref = store.put_segment("loop", 0, iteration, "base", columns)
    parent = store.head("loop")
    store.commit("loop", iteration=iteration, segments=[ref], parent=parent)
    iteration += 1

def fill():
    try:
        while True:
            commit()
    except FullError as error:
        assert "\\n" not in str(error)

fill()
others = os.path.join(store.backend.path, "..", "other-files")
if not limit:  # and somebody else takes the rest
    with open(others, "wb", 0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
committed = iteration
assert committed > 3, committed
for _ in range(5):
    versions = store.versions("loop")
    assert store.prune("loop", 1) == versions[:-1]
    store.collect(0, alone=True)
    before = iteration
    fill()
    print("commits after pruning:", iteration - before)
    assert iteration > before
    assert store.versions("loop")[-1] == iteration - 1
assert store.verify() == []
store.delete("loop")
assert list(store.backend.list_segments()) == []
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A directory with 8 MiB of room, and the limit on a file where that is what keeps it small."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, timeout=240).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield place, 0 if mounted else 4 << 20
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True, timeout=240)


def run(code: str, *arguments: object) -> str:
    """What Python code prints in a process of its own, which must not be killed."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def fill(store: Store, count: int = 20) -> None:
    for iteration in range(count):
        columns = {"id": np.arange(2000), "value": np.full(2000, float(iteration))}
        ref = store.put_segment("loop", 0, iteration, "base", columns)
        parent = store.head("loop")
        store.commit("loop", iteration=iteration, segments=[ref], parent=parent)


@pytest.mark.parametrize("name", ["catalog", "shard-00"])
@pytest.mark.parametrize("part", [0.01, 0.3, 0.6, 0.9])
@pytest.mark.full
def test_a_file_that_was_cut_short_is_refused(tmp_path: Path, name: str, part: float) -> None:
    with open_store(f"lmdb://{tmp_path}/store") as store:
        fill(store)
        used = store.backend._environment(name).handle.info()["last_pgno"]  # type: ignore[attr-defined]
    file = tmp_path / "store" / name / "data.mdb"
    os.truncate(file, int(part * used * 4096))
    said = run(READ, f"lmdb://{tmp_path}/store")
    assert said.startswith("refused:"), said
    assert f"{name}/data.mdb is damaged, or was cut short: restore" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("how", ["emptied", "removed", "directory removed"])
@pytest.mark.full
def test_segments_whose_catalog_is_lost_stay(tmp_path: Path, how: str) -> None:
    with open_store(f"lmdb://{tmp_path}/store") as store:
        fill(store)
    catalog = tmp_path / "store" / "catalog"
    if how == "emptied":
        os.truncate(catalog / "data.mdb", 0)
    elif how == "removed":
        os.unlink(catalog / "data.mdb")
    else:
        shutil.rmtree(catalog)
    said = run(READ, f"lmdb://{tmp_path}/store")
    assert "is lost, and shard-00 is not: restore" in said
    assert said.count("\n") == 1


@pytest.mark.full
def test_a_file_may_end_before_pages_that_are_free(tmp_path: Path) -> None:
    """LMDB does not write pages at the end that one transaction took and freed."""
    short = 0
    for seed in range(8):
        rng = random.Random(seed)
        place = tmp_path / str(seed)
        environment = open_environment(str(place), tables=("table",))
        table, file = environment.tables["table"], place / "data.mdb"
        for _ in range(200):
            with environment.handle.begin(write=True, db=table) as txn:
                for _ in range(rng.randint(1, 60)):
                    key = b"%06d" % rng.randint(0, 3000)
                    if rng.random() < 0.5:
                        txn.put(key, bytes(rng.choice([10, 100, 1000, 5000, 70_000])))
                    else:
                        txn.delete(key)
            environment.check_file()
            last = environment.handle.info()["last_pgno"]
            short += os.stat(file).st_size < (last + 1) * 4096
        assert 0 < environment.free_pages() < last
        for _ in range(5):
            copy = tmp_path / f"{seed}-{rng.random()}"
            copy.mkdir()
            shutil.copy(file, copy)
            os.truncate(copy / "data.mdb", rng.randint(1, int(0.8 * last * 4096)))
            with pytest.raises(CorruptError, match="cut short"):
                open_environment(str(copy), tables=("table",))
        del environment
    assert short > 0


@pytest.mark.parametrize("rows", [1000, 100_000], ids=["small segments", "large segments"])
@pytest.mark.full
def test_a_full_disk_is_made_room_on_from_inside(small_disk: tuple[Path, int], rows: int) -> None:
    place, limit = small_disk
    run(FULL, f"lmdb://{place}/store", limit, rows)


@pytest.mark.full
def test_a_full_file_is_made_room_in_from_inside(tmp_path: Path) -> None:
    """The same where a file cannot grow, whoever runs this."""
    run(FULL, f"lmdb://{tmp_path}/store", 4 << 20, 1000)


@pytest.mark.full
def test_a_store_grows_while_another_process_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "store")
    grow = (
        "import lmdb, sys\n"
        "e = lmdb.open(sys.argv[1], map_size=1 << 26, max_dbs=4)\n"
        "with e.begin(write=True) as t: t.put(b'key', bytes(1 << 25))\n"
    )
    opened = lmdb.open

    def open_then_grow(*args: Any, **options: Any) -> Any:
        handle = opened(*args, **options)
        subprocess.run([sys.executable, "-c", grow, path], check=True, timeout=240)
        return handle

    monkeypatch.setattr(lmdb, "open", open_then_grow)
    environment = open_environment(path, tables=("heads",), size=1 << 20)
    assert environment.read(lambda t: len(t.get(b"key"))) == 1 << 25
    environment.handle.close()


def test_threads_open_and_close_a_store_at_the_same_time(tmp_path: Path) -> None:
    """One opens it while the last array of another goes, and with it the environment."""
    url = f"lmdb://{tmp_path}/state"

    def rounds(_: int) -> None:
        for _ in range(150):
            open_store(url).close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(rounds, range(4)))
