"""What a process has open."""

from __future__ import annotations

import contextlib
import os

__all__ = ["open_files"]


def open_files() -> list[str]:
    """What each descriptor of this process points to."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return names
