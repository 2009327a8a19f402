"""The format version of an LMDB store: one line in its file FORMAT."""

from __future__ import annotations

import contextlib
import errno
import os

from vertexsdk.state.errors import FormatError, FullError, StateInputError

FORMAT = 3
EARLIER = (b"1", b"2")  # their segments are no Arrow tables; 1 has no references either


def check_format(path: str, create: bool, upgrade: bool) -> None:
    """Create a store in the directory, or check that the one there can be read.

    Args:
        upgrade: it may have an earlier format.

    Raises:
        FormatError: the directory holds other files, or a store of an unknown format.
        FullError: the disk is full.
        StateInputError: there is no store and not `create`, or the path cannot be used.
    """
    file = os.path.join(path, "FORMAT")
    try:
        if create:
            os.makedirs(path, exist_ok=True)
        with contextlib.suppress(FileNotFoundError), open(file, "rb") as marker:
            _compare_format(path, marker.read(100), upgrade)
            return
        entries = [name for name in os.listdir(path) if not name.startswith(".FORMAT")]
        if entries and "FORMAT" not in entries:
            raise FormatError(
                f"{path} holds other files ({min(entries)}, ...) and no store: "
                "name an empty or a new directory"
            )
        if not create:
            raise FileNotFoundError
        write_format(path)
    except FileNotFoundError:
        raise StateInputError(f"there is no store in {path}: check the --backend URL") from None
    except (FileExistsError, NotADirectoryError):
        raise StateInputError(
            f"{path} is a file: the --backend URL must name a directory"
        ) from None
    except PermissionError:
        raise StateInputError(
            f"no permission to use {path}: choose another directory or change its owner"
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FullError(f"no room left to create a store in {path}: free some space") from error
        raise StateInputError(f"{path} cannot be used for a store: {error.strerror}") from error


def write_format(path: str) -> None:
    """Write the current version to FORMAT."""
    temporary = os.path.join(path, f".FORMAT.{os.urandom(8).hex()}")
    with open(temporary, "wb") as new:
        new.write(b"vertexsdk state, format %d\n" % FORMAT)
        new.flush()
        os.fsync(new.fileno())
    os.replace(temporary, os.path.join(path, "FORMAT"))


def _compare_format(path: str, raw: bytes, upgrade: bool) -> None:
    words = raw.split()
    if words[:3] != [b"vertexsdk", b"state,", b"format"] or not words[3:4]:
        raise FormatError(f"{path}/FORMAT was not written by a store: name another directory")
    if words[3] in EARLIER:
        if not upgrade:
            raise earlier_format(path)
    elif words[3] != b"%d" % FORMAT:
        raise FormatError(
            f"the store in {path} has format {words[3].decode(errors='replace')}, this version of "
            f"vertexsdk reads format {FORMAT}: use the version that wrote it, or another directory"
        )


def earlier_format(place: str) -> FormatError:
    """The error for opening a store of an earlier format, on any backend."""
    return FormatError(
        f"the store in {place} has the format of an earlier version of vertexsdk: stop what uses "
        "it and run vertexsdk state upgrade, which keeps edges and changes"
    )
