"""Where and with what a table was made: machine, versions, date."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from benchmarks import processes

PACKAGES = ("vertexsdk", "pyspark", "numba", "numpy", "pyarrow", "lmdb", "scikit-learn")


def describe() -> dict[str, object]:
    """Processor, cores, memory in bytes, system, revision, versions, load average, date (UTC)."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "memory_available": processes.available(),
        "load_average": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "revision": _revision(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def others(seconds: float = 1.0) -> float:
    """What share of the machine's cores is in use while we do nothing for so many seconds."""
    before, began = processes.busy(), time.perf_counter()
    time.sleep(seconds)
    passed = time.perf_counter() - began
    return (processes.busy() - before) / (passed * (os.cpu_count() or 1))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.split(":", 1)[1].split())
    return platform.machine()


def _revision() -> str:
    """The commit that ours was at; ``-dirty`` when files were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
