"""The used share of the memory that this process and its neighbours in a container may use.

Linux control groups, versions 1 and 2. Files that the kernel has read and can drop do not count.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60  # a limit of version 1 that is none
_AGAIN = 0.1  # seconds after which the files are read again
_sample = (0.0, 0.0)  # when they were read, and the share


def used_memory() -> float:
    """The used share of the tightest limit, from 0 to 1; 0 without a limit.

    >>> 0 <= used_memory() <= 1
    True
    """
    global _sample
    now = time.monotonic()
    if not 0 <= now - _sample[0] < _AGAIN:
        _sample = now, max((_share(*group) for group in _own_groups()), default=0.0)
    return _sample[1]


def memory_limit() -> int | None:
    """The tightest limit in bytes; None where there is none.

    >>> (memory_limit() or 1) > 0
    True
    """
    limits = [_number(folder / limit) for folder, _, limit, _ in _own_groups()]
    return min((n for n in limits if n is not None and 0 < n < _NO_LIMIT), default=None)


def _number(file: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):  # no limit is "max"
        return int(file.read_text())
    return None


def _own_groups() -> list[tuple[Path, str, str, str]]:
    """The groups of this process: a folder, and its files of use, limit and statistics' key."""
    groups = []
    with contextlib.suppress(OSError):
        for line in _OWN.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            names = "memory.current", "memory.max", "inactive_file"
            top = _GROUPS
            if number != "0":
                if "memory" not in controllers.split(","):
                    continue
                names = "memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"
                top = _GROUPS / "memory"
            folder = top / path.strip("/")
            # In a container the path may be that of its host, and the folder at the top its own.
            while folder != top and top in folder.parents:
                groups.append((folder, *names))
                folder = folder.parent
            groups.append((top, *names))
    return groups


def _share(folder: Path, use: str, limit: str, inactive: str) -> float:
    with contextlib.suppress(OSError, ValueError):  # "max" is no limit; the group may be missing
        most = int((folder / limit).read_text())
        if 0 < most < _NO_LIMIT:
            statistics = (folder / "memory.stat").read_text().split()
            dropped = int(statistics[statistics.index(inactive) + 1])
            return min(max(int((folder / use).read_text()) - dropped, 0) / most, 1.0)
    return 0.0
