"""An archive of the classes that Spark loads, from which later JVMs start in half the time.

This is the JDK's class data sharing: the JVM writes the archive as it ends, after its driver has
ended, where there is none for this Java and this PySpark. It takes some 150 MB in the user's cache
directory. A JVM that the archive does not fit goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

import pyspark

from vertexsdk.arrays.private_files import NotPrivateError, make_private, user_cache

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_BYTES = 1 << 30  # that must be free to write one
_ABANDONED = 300.0  # seconds after which a JVM that began to write an archive has died


def archive_options(chosen: str) -> str:
    """Return Java options by which a JVM uses the archive, or writes it.

    Args:
        chosen: the user's Java options; none are added where they share classes already.
    """
    java = _java()
    if java is None or "-Xshare" in chosen or "Archive" in chosen:
        return ""
    try:
        path = make_private(os.path.join(user_cache(), "java")) / f"{_digest(java)}.jsa"
        if _complete(path):
            return f"-XX:SharedArchiveFile={path} {_QUIET}"
        being_written = path.exists() and time.time() - path.stat().st_mtime < _ABANDONED
        if being_written or shutil.disk_usage(path.parent).free < _BYTES or " " in str(path):
            return ""
        return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
    except (OSError, NotPrivateError):
        return ""


def delete_archive(options: str) -> bool:
    """Delete the archive that a JVM with these options was to use; return whether there was one.

    A JVM does not start from an archive that was cut off by a power cut.
    """
    _, uses, path = options.partition("-XX:SharedArchiveFile=")
    if uses:
        Path(path.split()[0]).unlink(missing_ok=True)
    return bool(uses)


def _java() -> Path | None:
    """The program that PySpark starts."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    return None if found is None else Path(found).resolve()


def _digest(java: Path) -> str:
    """What an archive is bound to: the JDK, and Spark's jars."""
    spark = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    parts = [pyspark.__version__, spark, str(java)]
    parts += [str(os.stat(path).st_mtime_ns) for path in (java, os.path.join(spark, "jars"))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _complete(path: Path) -> bool:
    """Whether there is an archive; the JVM writes its first bytes last."""
    try:
        with path.open("rb") as file:
            return file.read(4) not in (b"", bytes(4))
    except FileNotFoundError:
        return False
