"""Removes directories of shared arrays once their owners have all ended.

As a program it is the sweeper of one process: it waits for the end of the owner, learns meanwhile
which directories that has, and then sweeps them. It imports little, and the standard library only,
so it starts in a few milliseconds, without the package, and is small.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import stat
import sys
from collections.abc import Iterator

LONGEST = 1 << 13  # bytes of a directory's path


@contextlib.contextmanager
def gate(folder: int) -> Iterator[None]:
    """Let one process at a time become an owner of a directory, or sweep it."""
    file = os.open(".gate", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)  # a process that was forked meanwhile has it open too
        os.close(file)


def is_same(place: str, folder: int) -> bool:
    """Return whether an open directory still has that path."""
    try:
        return os.path.samestat(os.stat(place, follow_symlinks=False), os.fstat(folder))
    except FileNotFoundError:
        return False


def owners(folder: int) -> list[str]:
    """The names of owners' files in a directory."""
    return [name for name in os.listdir(folder) if name.startswith("lock-")]


def is_owned(folder: int, role: str = "") -> bool:
    """Return whether a living process owns a directory; `role` limits this to one role."""
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
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)
    return False


def sweep(place: str, folder: int) -> None:
    """Remove a directory, open as `folder`, unless an owner of it lives."""
    with gate(folder):
        if not is_same(place, folder) or is_owned(folder):
            return
        # Renamed first, so that processes waiting at the gate create the directory anew.
        swept = f"{place}-{os.urandom(4).hex()}"
        os.rename(place, swept)
    import shutil  # only at the end, as it is large

    shutil.rmtree(swept, ignore_errors=True)


def _sweep_private(place: str) -> None:
    """Sweep a directory that exists and that only this user can access."""
    folder = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        status = os.fstat(folder)
        if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
            sweep(place, folder)
    finally:
        os.close(folder)


def _main(alive: int, told: int) -> None:
    """Wait for the end of a process, and sweep the directories that it has told of.

    Args:
        alive: descriptor of that process.
        told: socket descriptor: a message has a directory, and perhaps a lock to hold until then.
    """
    link = socket.socket(fileno=told)
    ended = select.poll()
    for descriptor in (alive, told):
        ended.register(descriptor, select.POLLIN)
    places: list[str] = []
    locks: list[int] = []
    while True:
        ready = [descriptor for descriptor, _ in ended.poll()]
        if told in ready:  # what was told before the end is heard first
            message, held, _, _ = socket.recv_fds(link, LONGEST, 1)
            locks += held
            if message:
                places.append(os.fsdecode(message))
            else:  # the sender has ended, or no longer holds the link
                ended.unregister(told)
        elif alive in ready:
            break
    for lock in locks:
        os.close(lock)
    for place in dict.fromkeys(places):
        with contextlib.suppress(OSError):  # its owner has removed it
            _sweep_private(place)


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
