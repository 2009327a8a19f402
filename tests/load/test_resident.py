"""Arrays kept for all processes of a host, and what is left when they die."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from vertexsdk import resident
from vertexsdk.errors import RunError


@pytest.fixture
def application() -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex}"
    yield name
    resident.release(name)


def directories(application: str) -> list[Path]:
    found = [r / f"vertexsdk-{application}" for r in resident._roots()]
    return [d for d in found if d.exists()]


def test_what_is_saved_is_there_until_it_is_dropped(application: str) -> None:
    key = f"{application}/graph/out/0"
    assert resident.open(key) is None
    resident.save(key, {"a": np.arange(5)}, {"n": 5})
    found = resident.open(key)
    assert found is not None
    assert found[0]["a"].tolist() == [0, 1, 2, 3, 4]
    assert found[1] == {"n": 5}
    assert not found[0]["a"].flags.writeable
    assert resident.open(key) is not None
    assert resident.open(key)[0]["a"] is found[0]["a"]  # type: ignore[index]
    resident.save(f"{application}/graph2/0", {}, {})
    resident.drop(f"{application}/graph")
    assert resident.open(key) is None
    assert resident.open(f"{application}/graph2/0") is not None
    assert found[0]["a"].sum() == 10  # what is mapped stays


def test_another_process_reads_it(application: str) -> None:
    resident.save(f"{application}/x", {"a": np.arange(3.0)}, {})
    code = f"from vertexsdk import resident; print(resident.open('{application}/x')[0]['a'].sum())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "3.0\n"


def test_directories_of_the_dead_are_swept(application: str) -> None:
    code = (
        "from vertexsdk import resident; import numpy as np, os;"
        f"resident.save('{application}/x', {{'a': np.arange(3)}}, {{}}); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert directories(application)
    other = f"test-{uuid.uuid4().hex}"
    resident.claim(other)
    assert not directories(application)
    assert directories(other)
    resident.release(other)


def test_released_at_the_end_of_the_driver(application: str) -> None:
    code = (
        "from vertexsdk import resident; import numpy as np, os;"
        f"resident.save('{application}/x', {{'a': np.arange(3)}}, {{}});"
        f"resident.release_at_exit('{application}');"
        "pid = os.fork();"
        "os._exit(0) if pid == 0 else os.waitpid(pid, 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not directories(application)


def test_a_small_shared_memory_is_passed_over(
    application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, *rest = resident._roots()
    if not rest:
        pytest.skip("there is only one place to keep arrays")
    monkeypatch.setattr(resident, "_free", lambda root: 0 if root == shared else 1 << 40)
    resident.save(f"{application}/x", {"a": np.arange(3)}, {})
    assert [d.parent for d in directories(application)] == rest
    assert resident.open(f"{application}/x") is not None


def test_no_room_is_said_in_one_line(application: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(resident, "write_file", full)
    with pytest.raises(RunError, match=r"cannot keep 0 MB .* No space left on device; free some"):
        resident.save(f"{application}/x", {"a": np.arange(3)}, {})
