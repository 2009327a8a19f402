"""The format version of a store: of an LMDB store one line in its file FORMAT."""

from __future__ import annotations

import contextlib
import os

from vertexsdk.backends._files import NO_ROOM
from vertexsdk.state.errors import FormatError, FullError, StateInputError

FORMAT = "3"
MARK = "vertexsdk state, format "


def check_format(path: str, create: bool) -> None:
    """Create a store in the directory, or check that the one there can be read.

    Raises:
        FormatError: the directory holds other files, or a store of an unknown format.
        FullError: the disk is full.
        StateInputError: no store exists and not `create`, or the path cannot be used.
    """
    file = os.path.join(path, "FORMAT")
    try:
        if create:
            os.makedirs(path, exist_ok=True)
        with contextlib.suppress(FileNotFoundError), open(file, "rb") as marker:
            text = marker.read(100).decode(errors="replace")
            if not text.startswith(MARK):
                raise FormatError(f"{file} was not written by a store: name another directory")
            version = text.removeprefix(MARK).strip()
            return check_version(path, version, "another directory")
        entries = [name for name in os.listdir(path) if not name.startswith(".FORMAT")]
        if entries and "FORMAT" not in entries:
            raise FormatError(
                f"{path} holds other files ({min(entries)}, ...) and no store: "
                "name an empty or a new directory"
            )
        if not create:
            raise FileNotFoundError
        _write_format(path)
    except FileNotFoundError:
        raise StateInputError(f"there is no store in {path}: check the URL") from None
    except (FileExistsError, NotADirectoryError):
        raise StateInputError(f"{path} is a file: the URL must name a directory") from None
    except PermissionError:
        raise StateInputError(
            f"no permission to use {path}: choose another directory or change its owner"
        ) from None
    except OSError as error:
        if error.errno in NO_ROOM:
            raise FullError(f"no room left to create a store in {path}: free some space") from error
        raise StateInputError(f"{path} cannot be used for a store: {error.strerror}") from error


def _write_format(path: str) -> None:
    """Write the current version to FORMAT."""
    temporary = os.path.join(path, f".FORMAT.{os.urandom(8).hex()}")
    with open(temporary, "wb") as new:
        new.write(f"{MARK}{FORMAT}\n".encode())
        new.flush()
        os.fsync(new.fileno())
    os.replace(temporary, os.path.join(path, "FORMAT"))


def check_version(place: str, stored: object, elsewhere: str, latest: object = FORMAT) -> None:
    """Refuse a store, on any backend, whose format is not the latest.

    Args:
        elsewhere: what else the user may name.

    Raises:
        FormatError: says what to do.
    """
    if stored != latest:
        raise FormatError(
            f"the store in {place} has format {stored}, this version of vertexsdk reads format "
            f"{latest}: use the version that wrote it, or {elsewhere}"
        )
