"""Private directories and files in places that every user can write, such as /dev/shm and /tmp.

Other users can create anything there under any name, and replace it between two calls. So checks
are made on the open descriptor, never on the name: a directory must have mode 0700 and a file mode
0600, both must belong to this process's user, and neither may be a symbolic link. Below such a
directory no other user can create, replace or remove a name.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

from vertexsdk.errors import RunError, warn_caller

_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a named pipe must not block


class NotPrivateError(RunError):
    """A file or directory that another user owns, or can write."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(
            f"{os.fspath(path)} {reason}, so it is not read: remove it, or name a directory of "
            "your own in VERTEXSDK_RESIDENT_DIR (graphs) or VERTEXSDK_CACHE_DIR (compiled code)"
        )


def open_file(path: str | os.PathLike[str], flags: int, *, parent: int | None = None) -> int:
    """Open a regular file of this user and mode 0600; can be the `opener` of `open`.

    Args:
        path: relative to `parent`, if that is given.
        flags: those of `os.open`; with O_CREAT the file is created with mode 0600.
        parent: descriptor of a directory.

    Returns:
        The file's descriptor.

    Raises:
        NotPrivateError: it belongs to another user, others can access it, or it is not a file.
        OSError: as `os.open`.
    """
    return _open_checked(path, flags, parent, stat.S_IFREG)


def open_directory(path: str | os.PathLike[str], *, make: bool = False) -> int:
    """Open a directory of this user and mode 0700; with `make` it is created if absent.

    Returns:
        The directory's descriptor.

    Raises:
        NotPrivateError: it belongs to another user, others can access it, or it is not a directory.
        OSError: as `os.open`.
    """
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    return _open_checked(path, os.O_RDONLY, None, stat.S_IFDIR)


def user_cache() -> str:
    """The directory for what this user's processes can compute again, which may not exist yet.

    That of `VERTEXSDK_CACHE_DIR`, or else `vertexsdk` in the user's cache directory.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.environ.get("VERTEXSDK_CACHE_DIR") or os.path.join(home, "vertexsdk")


def make_private(path: str | os.PathLike[str]) -> Path:
    """Create a private directory that may be used by its name.

    All directories above it must belong to root or this user, and not let others replace a name
    in them: not writable by others, or sticky like /tmp.

    Returns:
        Its real path.

    Raises:
        NotPrivateError: they do not, or the directory exists and is not private.
        OSError: it cannot be created.
    """
    real = Path(os.path.realpath(path))
    trusted = {0, os.geteuid(), os.stat("/").st_uid}  # root has another number in some containers
    for above in reversed(real.parents):
        with contextlib.suppress(FileExistsError):
            if not os.path.lexists(above):
                os.mkdir(above, 0o700)
        status = os.lstat(above)
        if not stat.S_ISDIR(status.st_mode):
            raise NotPrivateError(above, "is not a directory")
        if status.st_uid not in trusted:
            raise NotPrivateError(above, f"belongs to user {status.st_uid}")
        if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
            raise NotPrivateError(above, "can be written by other users")
    os.close(open_directory(real, make=True))
    return real


def cache_directory() -> Path:
    """Return the directory for generated and compiled code.

    Where no private directory can be written it is a temporary one of this process, with a warning,
    as every process of a run then compiles anew.
    """
    try:
        path = make_private(os.path.join(user_cache(), "kernels"))
        if os.access(path, os.W_OK):
            return path
        reason = f"{path} cannot be written"
    except (OSError, NotPrivateError) as error:
        reason = str(error)
    return _own_directory(reason)


@cache
def _own_directory(reason: str) -> Path:
    warn_caller(f"compiled code is not kept: {reason}", RuntimeWarning)
    path, pid = tempfile.mkdtemp(prefix="vertexsdk-"), os.getpid()
    atexit.register(lambda: shutil.rmtree(path, True) if os.getpid() == pid else None)
    return Path(path)


def _open_checked(path: str | os.PathLike[str], flags: int, parent: int | None, kind: int) -> int:
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
        reason = "is not a directory" if kind == stat.S_IFDIR else "is not a regular file"
    elif status.st_uid != os.geteuid():
        reason = f"belongs to user {status.st_uid}, not to user {os.geteuid()}"
    elif status.st_mode & 0o077:
        reason = f"has mode {stat.S_IMODE(status.st_mode):o}: other users can open it"
    if reason is not None:
        os.close(descriptor)
        raise NotPrivateError(path, reason)
    return descriptor
