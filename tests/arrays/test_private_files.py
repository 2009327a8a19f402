"""Only what this user alone can write is opened, whatever lies under the name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vertexsdk.arrays.private_files import NotPrivateError, make_private, open_directory, open_file


def spoil(path: Path) -> None:
    """Make a file or directory another user's; who is not root lets others write it instead."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        path.chmod(0o777 if path.is_dir() else 0o666)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_made_is_for_this_user_alone(tmp_path: Path) -> None:
    place, file = tmp_path / "place", tmp_path / "place" / "file"
    before = os.umask(0)
    try:
        folder = open_directory(place, make=True)
        os.close(open_file("file", os.O_RDWR | os.O_CREAT, parent=folder))
        os.close(folder)
        private = make_private(place / "above" / "kernels")
    finally:
        os.umask(before)
    assert (mode(place), mode(file)) == (0o700, 0o600)
    assert (mode(private.parent), mode(private)) == (0o700, 0o700)
    with open(file, "rb", opener=open_file) as again:
        assert again.read() == b""


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch(0o600)
    spoil(file)
    with pytest.raises(NotPrivateError, match=r"file .*, so it is not read: remove it, or name"):
        open_file(file, os.O_RDONLY)


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    file.chmod(0o620)
    with pytest.raises(NotPrivateError, match="has mode 620: other users can open it"):
        open_file(file, os.O_RDONLY)


def test_links_pipes_and_directories_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "target").touch(0o600)
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "folder").mkdir(0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(NotPrivateError, match="link is a symbolic link"):
        open_file(tmp_path / "link", os.O_RDONLY)
    for name in ("folder", "pipe"):
        with pytest.raises(NotPrivateError, match=f"{name} is not a regular file"):
            open_file(tmp_path / name, os.O_RDONLY)


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir(0o700)
    spoil(place)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch(0o600)
    for name in ("place", "link", "file"):
        with pytest.raises(NotPrivateError, match=name):
            open_directory(tmp_path / name, make=True)


def test_a_name_which_others_can_swap_is_refused(tmp_path: Path) -> None:
    """The last part is this user's; a part above it is not."""
    above = tmp_path / "above"
    kernels = make_private(above / "kernels")
    assert make_private(kernels) == kernels
    above.chmod(0o770)
    with pytest.raises(NotPrivateError, match="above can be written by other users"):
        make_private(kernels)
    above.chmod(0o1777)  # sticky: others make names there, and swap none
    assert make_private(kernels) == kernels
    above.chmod(0o700)
    spoil(above)
    with pytest.raises(NotPrivateError, match=r"above (belongs to user|can be written)"):
        make_private(kernels)
