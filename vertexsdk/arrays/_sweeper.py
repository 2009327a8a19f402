"""Removes a directory of shared arrays once its owners have all ended.

As a program it waits for the end of one owner first. It imports the standard library only, so it
starts in a few milliseconds, without the package. Whoever opens the directory checks that it is
private to this user; so nobody else can put files there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import select
import shutil
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def gate(folder: int) -> Iterator[None]:
    """Let one process at a time become an owner of a directory, or sweep it."""
    file = os.open(".gate", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def is_same(place: str, folder: int) -> bool:
    """Whether an open directory still has that path."""
    try:
        return os.path.samestat(os.stat(place, follow_symlinks=False), os.fstat(folder))
    except FileNotFoundError:
        return False


def owners(folder: int) -> list[str]:
    """The names of owners' files in a directory."""
    return [name for name in os.listdir(folder) if name.startswith("lock-")]


def is_owned(folder: int, role: str = "") -> bool:
    """Whether an owner of a directory lives; `role`: one of these."""
    return any(_is_locked(folder, name) for name in owners(folder) if f"-{role}" in name)


def _is_locked(folder: int, name: str) -> bool:
    try:
        lock = os.open(name, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def sweep(place: str, folder: int) -> None:
    """Remove a directory, open as `folder`, unless an owner of it lives."""
    with gate(folder):
        if not is_same(place, folder) or is_owned(folder):
            return
        # Renamed first, so that processes waiting at the gate create the directory anew.
        swept = f"{place}-{secrets.token_hex(4)}"
        os.rename(place, swept)
    shutil.rmtree(swept, ignore_errors=True)


def _main(alive: int, held: int, *given: str) -> None:
    """Wait for a process, release `held` locks, and sweep directories, which are open."""
    ended = select.poll()
    ended.register(alive, select.POLLIN)
    ended.poll()
    for lock in given[:held]:
        os.close(int(lock))
    count = (len(given) - held) // 2
    folders, places = given[held : held + count], given[held + count :]
    for folder, place in zip(folders, places, strict=True):
        with contextlib.suppress(OSError):  # its owner has removed it
            sweep(place, int(folder))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
