"""Arrays kept for all processes of a host, and what is left when they die."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays._sweeper import LONGEST
from vertexsdk.arrays.private_files import NotPrivateError
from vertexsdk.backends.memory import MemoryBackend
from vertexsdk.errors import RunError


@pytest.fixture
def application() -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex}"
    yield name
    shared_memory.release(name)


def directories(application: str) -> list[Path]:
    found = [r / f"vertexsdk-{application}" for r in shared_memory._roots()]
    return [d for d in found if d.exists()]


def test_what_is_saved_is_there_until_it_is_dropped(application: str) -> None:
    key = f"{application}/graph/out/0"
    assert shared_memory.load(key) is None
    shared_memory.save(key, {"a": np.arange(5)}, {"n": 5})
    found = shared_memory.load(key)
    assert found is not None
    assert found[0]["a"].tolist() == [0, 1, 2, 3, 4]
    assert found[1] == {"n": 5}
    assert not found[0]["a"].flags.writeable
    assert shared_memory.load(key) is not None
    assert shared_memory.load(key)[0]["a"] is found[0]["a"]  # type: ignore[index]
    shared_memory.save(f"{application}/graph2/0", {}, {})
    shared_memory.drop(f"{application}/graph")
    assert shared_memory.load(key) is None
    assert shared_memory.load(f"{application}/graph2/0") is not None
    assert found[0]["a"].sum() == 10  # what is mapped stays


def test_threads_may_load_and_drop_at_once(application: str) -> None:
    """As the graphs that nobody refers to are dropped by a thread."""
    failures, interval = list[BaseException](), sys.getswitchinterval()
    for k in range(100):
        shared_memory.save(f"{application}/kept/{k}", {"a": np.arange(3)}, {})

    def work(number: int) -> None:
        try:
            for k in range(60):
                key = f"{application}/{number}/{k}"
                shared_memory.save(key, {"a": np.arange(3)}, {})
                assert shared_memory.load(key) is not None
                assert shared_memory.load(f"{application}/kept/{k}") is not None
                shared_memory.drop(key)
        except BaseException as error:
            failures.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


@pytest.mark.full
def test_another_process_reads_it(application: str) -> None:
    shared_memory.save(f"{application}/x", {"a": np.arange(3.0)}, {})
    code = "from vertexsdk.arrays import shared_memory as resident; "
    code += f"print(resident.load('{application}/x')[0]['a'].sum())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=240) == "3.0\n"


@pytest.mark.full
def test_released_at_the_end_of_the_driver(application: str) -> None:
    code = (
        "from vertexsdk.arrays import shared_memory as resident; import numpy as np, os;"
        f"resident.save('{application}/x', {{'a': np.arange(3)}}, {{}});"
        f"resident.release_at_exit('{application}');"
        "pid = os.fork();"
        "os._exit(0) if pid == 0 else os.waitpid(pid, 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
    assert not directories(application)


def test_a_small_shared_memory_is_passed_over(
    application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, *rest = shared_memory._roots()
    if not rest:
        pytest.skip("there is only one place to keep arrays")
    monkeypatch.setattr(shared_memory, "_free", lambda root: 0 if root == shared else 1 << 40)
    shared_memory.save(f"{application}/x", {"a": np.arange(3)}, {})
    assert [d.parent for d in directories(application)] == rest
    assert shared_memory.load(f"{application}/x") is not None


def test_no_room_is_said_in_one_line(application: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(shared_memory, "write_file", full)
    with pytest.raises(RunError, match=r"cannot write 0 MB .* No space left on device; free some"):
        shared_memory.save(f"{application}/x", {"a": np.arange(3)}, {})


def spoil(path: Path) -> None:
    """Make a file or directory another user's; who is not root lets others write it instead."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        path.chmod(0o777 if path.is_dir() else 0o666)


@pytest.fixture
def places(application: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories of the application in two places, neither of which is there."""
    roots = [tmp_path / "shared", tmp_path / "temporary"]
    for root in roots:
        root.mkdir()
        root.chmod(0o1777)
    monkeypatch.setattr(shared_memory, "_roots", lambda: roots)
    return [root / f"vertexsdk-{application}" for root in roots]


@pytest.mark.full
def test_directories_of_the_dead_are_swept(application: str, places: list[Path]) -> None:
    """In a place of the test's own: any process that begins sweeps the places that all share."""
    code = (
        "from vertexsdk.arrays import shared_memory as resident; import numpy as np, os;"
        "from pathlib import Path;"
        f"resident._roots = lambda: [Path({str(places[0].parent)!r})];"
        "resident._watch_owner = lambda locks: None;"  # as where there is no pidfd_open
        f"resident.save('{application}/x', {{'a': np.arange(3)}}, {{}}); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=240)
    assert places[0].exists()
    other = f"test-{uuid.uuid4().hex}"
    shared_memory.claim(other)
    assert not places[0].exists()
    assert directories(other)
    shared_memory.release(other)


def test_only_this_user_can_open_what_is_kept(application: str, places: list[Path]) -> None:
    before = os.umask(0)
    try:
        shared_memory.save(f"{application}/graph/out/0", {"a": np.arange(3)}, {})
        shared_memory.directory(f"{application}/live/0")
    finally:
        os.umask(before)
    kept = [places[0], *places[0].rglob("*")]
    assert len(kept) > 6
    assert {(p.is_dir(), p.stat().st_mode & 0o777) for p in kept} == {(True, 0o700), (False, 0o600)}


def test_a_directory_that_another_user_made_is_passed_over(
    application: str, places: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    key = f"{application}/x"
    places[0].mkdir(0o700)
    shared_memory.save(key, {"a": np.arange(3)}, {})
    (places[0] / "live").mkdir(0o700)
    spoil(places[0])
    shared_memory.claim(application)
    assert shared_memory.load(key) is None  # however good the file in it is
    shared_memory._locks.clear()
    shared_memory.claim(application)
    assert "is not read: remove it" in caplog.text
    shared_memory.save(key, {"a": np.arange(4)}, {})
    assert shared_memory.directory(f"{application}/live").parent == places[1]
    found = shared_memory.load(key)
    assert found is not None
    assert len(found[0]["a"]) == 4


def test_directories_that_another_user_made_everywhere_are_refused(
    application: str, places: list[Path]
) -> None:
    for place in places:
        place.mkdir(0o700)
        spoil(place)
    with pytest.raises(NotPrivateError, match="remove it, or name a directory of your own"):
        shared_memory.claim(application)
    with pytest.raises(NotPrivateError, match="remove it, or name a directory of your own"):
        shared_memory.save(f"{application}/x", {"a": np.arange(3)}, {})


def test_a_file_of_another_user_is_refused(application: str, places: list[Path]) -> None:
    key = f"{application}/x"
    shared_memory.save(key, {"a": np.arange(3)}, {})
    file = places[0] / "x.columns"
    other = places[0] / "other.columns"
    shutil.copyfile(file, other)
    other.chmod(0o600)
    spoil(other)
    with pytest.raises(NotPrivateError, match=r"other\.columns"):
        shared_memory.load(f"{application}/other")
    file.unlink()
    file.symlink_to(other)
    with pytest.raises(NotPrivateError, match=r"x\.columns is a symbolic link"):
        shared_memory.load(key)


def test_nobody_can_guess_where_an_application_keeps_its_arrays() -> None:
    first = shared_memory.application("app-1")
    assert first == shared_memory.application("app-1")
    assert len(first) >= len("app-1-") + 16
    assert first != shared_memory.application("app-2").replace("app-2", "app-1")


def test_a_foreign_marker_ends_no_run(application: str, places: list[Path]) -> None:
    """Whatever lies in a directory of that name, this user's runs start and stay."""
    shared_memory.save(f"{application}/x", {"a": np.arange(3)}, {})
    foreign = places[0].with_name("vertexsdk-foreign")
    foreign.mkdir(0o700)
    (foreign / "lock-x").touch()
    spoil(foreign)
    (places[0].with_name("vertexsdk-link")).symlink_to(places[0])
    shared_memory.claim(f"{application}-later")
    assert (foreign / "lock-x").exists()
    assert shared_memory.load(f"{application}/x") is not None
    shared_memory.release(f"{application}-later")


CLAIM = """
import sys
import threading
from pathlib import Path
from vertexsdk.arrays import shared_memory as resident
if {blind}:
    resident._started = lambda pid: -1  # as where process ids are others
roots = [Path(x) for x in {roots!r}]
resident._roots = lambda: roots
resident.claim("other")
"""


def sees_other_processes(roots: list[Path]) -> None:
    """Have a run begin and end which shares the directories, and not the process ids."""
    apart = ["unshare", "-Urpf", "--mount-proc"]
    can = (
        shutil.which("unshare")
        and subprocess.run([*apart, "true"], check=False, timeout=240).returncode == 0
    )
    code = CLAIM.format(blind=not can, roots=[str(root) for root in roots])
    command = [sys.executable, "-c", code]
    subprocess.run([*apart, *command] if can else command, check=True, timeout=240)


@pytest.mark.full
def test_a_run_in_another_container_leaves_this_one_its_arrays(
    application: str, places: list[Path]
) -> None:
    shared_memory.save(f"{application}/x", {"a": np.arange(3)}, {})
    sees_other_processes(shared_memory._roots())
    assert shared_memory.load(f"{application}/x") is not None


WORKER = """
import os, numpy as np
from pathlib import Path
from vertexsdk.arrays import shared_memory as resident
roots = [Path(x) for x in {roots!r}]
resident._roots = lambda: roots
resident._owner = lambda: {executor}
resident.save("{application}/x", {{"a": np.arange(3)}}, {{}})
os._exit(0)
"""


@pytest.mark.full
def test_an_executor_s_arrays_stay_when_its_workers_have_ended(
    application: str, places: list[Path]
) -> None:
    executor = subprocess.Popen(["sleep", "600"])
    try:
        roots = [str(root) for root in shared_memory._roots()]
        code = WORKER.format(roots=roots, executor=executor.pid, application=application)
        for _ in range(2):  # the second finds that the executor is an owner already
            subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
        assert len(list(places[0].glob("lock-*"))) == 1
        sees_other_processes(shared_memory._roots())
        assert places[0].exists()
    finally:
        executor.kill()
        executor.wait()
    until = time.monotonic() + 60
    while places[0].exists() and time.monotonic() < until:
        sees_other_processes(shared_memory._roots())
    assert not places[0].exists()


def test_a_process_has_one_sweeper(
    application: str, places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    links: list[socket.socket] = []

    def started(owner: int) -> socket.socket:
        assert owner == os.getpid()
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        links.append(there)
        return here

    def told() -> set[str]:
        links[-1].setblocking(False)
        with contextlib.suppress(BlockingIOError):
            return {os.fsdecode(links[-1].recv(LONGEST)), *told()}
        return set()

    monkeypatch.setattr(shared_memory, "_told", None)
    monkeypatch.setattr(shared_memory, "_locks", {})
    monkeypatch.setattr(shared_memory, "_started", started)
    assert not links  # before it is needed
    stores = [MemoryBackend.from_url(f"memory://{application}-{k}").location for k in range(3)]
    for k in range(3):
        shared_memory.claim(f"{application}-{k}")
    shared_memory.save(f"{application}/x", {"a": np.arange(3)}, {})
    assert len(links) == 1
    every = told()
    assert every == set(shared_memory._locks)
    assert len(every) == 1 + 3 * len(places) + 1  # the stores share one directory
    assert len({*stores}) == 3
    links[0].close()  # it was killed
    shared_memory.claim(f"{application}-3")
    assert len(links) == 2
    assert told() == set(shared_memory._locks) > every
    for lock in shared_memory._locks.values():
        os.close(lock)


OWNER = """
import os, signal, sys, time
import numpy as np
from vertexsdk.arrays import shared_memory
from vertexsdk.backends.memory import MemoryBackend
def own(name):
    for k in range(3):
        MemoryBackend.from_url(f"memory://{{name}}-{{k}}")
        shared_memory.save(f"{application}-{{name}}-{{k}}/x", {{"a": np.arange(3)}}, {{}})
own("parent")
there = [*shared_memory._locks]
child = os.fork()
if child == 0:
    own("child")
    print(os.getpid(), *shared_memory._locks, flush=True)
    time.sleep(600)
print(os.getpid(), *there, flush=True)
time.sleep(600)
"""


def _children(process: int) -> int:
    return sum(
        f"\nPPid:\t{process}\n" in status.read_text()
        for status in Path("/proc").glob("[0-9]*/status")
        if status.exists()
    )


@pytest.mark.full
def test_a_killed_process_is_swept_though_its_fork_lives(application: str) -> None:
    code = OWNER.format(application=application)
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    lines = sorted((owner.stdout.readline().split() for _ in range(2)), key=lambda x: -len(x))
    own = {int(line[0]): [Path(place) for place in line[1:]] for line in lines}
    (fork,) = own.keys() - {owner.pid}
    try:
        assert all(place.exists() for some in own.values() for place in some)
        assert _children(owner.pid) == 2  # the sweeper, and the fork
        assert _children(fork) == 1
        owner.kill()
        owner.wait(60)
        assert _until(lambda: not any(place.exists() for place in own[owner.pid]))
        assert all(place.exists() for place in own[fork])
    finally:
        os.kill(fork, signal.SIGKILL)
        owner.stdout.close()
    assert _until(lambda: not any(place.exists() for place in own[fork]))


def _until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()
