"""A driver's JVM starts from an archive of Spark's classes, and writes it where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from vertexsdk.transport import session
from vertexsdk.transport.session import archive_options

pytestmark = pytest.mark.full  # starts JVMs

CODE = """
import vertexsdk
spark = vertexsdk.session("local[1]")
management = spark.sparkContext._jvm.java.lang.management.ManagementFactory
print(list(management.getRuntimeMXBean().getInputArguments()))
spark.stop()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERTEXSDK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "java"


def start() -> str:
    """Start a session as a user does, without the options of the tests; what it printed."""
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_session_writes_the_archive_of_the_next(cache: Path) -> None:
    assert "ArchiveClassesAtExit" in start()
    end = time.monotonic() + 60
    while "SharedArchiveFile" not in archive_options("") and time.monotonic() < end:
        time.sleep(0.2)
    (archive,) = cache.iterdir()
    assert f"SharedArchiveFile={archive}" in start()


def test_a_damaged_archive_is_deleted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(archive_options("").split()[0].partition("=")[2])
    path.write_bytes(b"\xa8" * 100)
    started: list[str] = []

    def launch(settings: object, java: str) -> tuple[Any, Any]:
        started.append(java)
        if "SharedArchiveFile" in java:
            raise PySparkRuntimeError("Java gateway process exited")  # by a fault of the JVM
        raise InterruptedError

    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    monkeypatch.setattr(session, "_launch", launch)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    with pytest.raises(InterruptedError):
        session._start_quietly({})
    assert [str(path) in java for java in started] == [True, False]
    assert not path.exists()


def test_options_of_the_user(cache: Path) -> None:
    assert archive_options("-Xmx1g").startswith("-XX:ArchiveClassesAtExit=")
    assert archive_options("-Xshare:off") == ""
    assert archive_options("-XX:SharedArchiveFile=/mine.jsa") == ""
    assert archive_options("-XX:ArchiveClassesAtExit=/mine.jsa") == ""


def test_one_jvm_writes_at_a_time(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(archive_options("").split()[0].partition("=")[2])
    assert path.parent == cache
    path.write_bytes(bytes(100))
    assert archive_options("") == ""  # it is being written
    os.utime(path, (0, 0))
    assert "ArchiveClassesAtExit" in archive_options("")  # its JVM has died
    path.write_bytes(b"\xa8" * 100)
    assert "SharedArchiveFile" in archive_options("")


def test_without_room_or_java_there_is_no_archive(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(session, "_BYTES", 1 << 60)
        assert archive_options("") == ""
    with monkeypatch.context() as absent:
        absent.setenv("JAVA_HOME", str(tmp_path))
        assert archive_options("") == ""
    assert archive_options("")
    cache.chmod(0o777)
    assert archive_options("") == ""  # others could have written it
