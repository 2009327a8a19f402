"""Directories and files of this user alone, in places where all may write, as /dev/shm and /tmp.

Anybody can make anything there under any name, and swap it between two looks. So what is opened is
judged by its descriptor, never by its name: a directory must be of mode 0700 and a file of mode
0600, both of this process's user, and no symbolic link. Below such a directory nobody else can
make, swap or remove a name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from vertexsdk.errors import RunError

__all__ = ["NotPrivateError", "make_private", "open_directory", "open_file"]

_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a named pipe must not hold us up


class NotPrivateError(RunError):
    """A file or directory that another user made, or can write."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(
            f"{os.fspath(path)} {reason}, so it is not read: remove it, or name a directory of "
            "your own by VERTEXSDK_RESIDENT_DIR (graphs) or VERTEXSDK_CACHE_DIR (compiled code)"
        )


def open_file(path: str | os.PathLike[str], flags: int, *, parent: int | None = None) -> int:
    """Open a regular file of this user and mode 0600, or make it; can be the `opener` of `open`.

    Args:
        path: relative to `parent` where that is given.
        flags: those of `os.open`.
        parent: descriptor of a directory.

    Raises:
        NotPrivateError: it belongs to another user, others can read or write it, or it is no file.
        OSError: as `os.open`.
    """
    return _opened(path, flags, parent, stat.S_IFREG)


def open_directory(path: str | os.PathLike[str], *, make: bool = False) -> int:
    """Open a directory of this user and mode 0700; with `make` it is made where it is not there.

    Raises:
        NotPrivateError: it belongs to another user, others can use it, or it is no directory.
        OSError: as `os.open`.
    """
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    return _opened(path, os.O_RDONLY, None, stat.S_IFDIR)


def make_private(path: str | os.PathLike[str]) -> Path:
    """Make a directory for this user alone that may be used by name; return its real path.

    All directories above it must be root's or this user's, and such that others can swap no name
    in them: not writable by others, or sticky like /tmp.

    Raises:
        NotPrivateError: they are not, or it is there and is not private.
        OSError: it cannot be made.
    """
    real = Path(os.path.realpath(path))
    trusted = {0, os.geteuid(), os.stat("/").st_uid}  # root has another number in some containers
    for above in reversed(real.parents):
        with contextlib.suppress(FileExistsError):
            if not os.path.lexists(above):
                os.mkdir(above, 0o700)
        status = os.lstat(above)
        if not stat.S_ISDIR(status.st_mode):
            raise NotPrivateError(above, "is no directory")
        if status.st_uid not in trusted:
            raise NotPrivateError(above, f"belongs to user {status.st_uid}")
        if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
            raise NotPrivateError(above, "can be written by other users")
    os.close(open_directory(real, make=True))
    return real


def _opened(path: str | os.PathLike[str], flags: int, parent: int | None, kind: int) -> int:
    try:
        descriptor = os.open(path, flags | _SAFE, 0o600, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPrivateError(path, "is a symbolic link") from None
        if error.errno == errno.EACCES:
            raise NotPrivateError(path, "cannot be opened by this user") from None
        raise
    status = os.fstat(descriptor)
    reason = None
    if stat.S_IFMT(status.st_mode) != kind:
        reason = "is no directory" if kind == stat.S_IFDIR else "is no regular file"
    elif status.st_uid != os.geteuid():
        reason = f"belongs to user {status.st_uid}, not to user {os.geteuid()}"
    elif status.st_mode & 0o077:
        reason = f"has mode {stat.S_IMODE(status.st_mode):o}: other users can open it"
    if reason is not None:
        os.close(descriptor)
        raise NotPrivateError(path, reason)
    return descriptor
