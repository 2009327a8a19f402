"""How much memory this process has taken."""

from __future__ import annotations

import resource
import time
from pathlib import Path

_STATUS = Path("/proc/self/status")
_sample = (0.0, 0)  # when it was read, and what


def peak_memory() -> int:
    """The peak resident bytes of this process; read once a second at most, as that takes long.

    >>> peak_memory() > 1_000_000
    True
    """
    global _sample
    now = time.monotonic()
    if now - _sample[0] >= 1.0 or not _sample[1]:
        _sample = (now, _peak())
    return _sample[1]


def _peak() -> int:
    try:
        status = _STATUS.read_text()
    except OSError:  # no Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024  # ru_maxrss has the parent's too
