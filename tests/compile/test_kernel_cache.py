"""Generated code is run as it is read, so it is read only where nobody else can write."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from vertexsdk.compile import module_cache

SOURCE = "ANSWER = 42\n"


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERTEXSDK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module_cache, "_DIGEST", tmp_path.name)  # modules of this test alone
    module_cache._own_directory.cache_clear()
    return tmp_path / "cache" / "kernels"


def test_code_is_kept_for_this_user_alone(wanted: Path) -> None:
    before = os.umask(0)
    try:
        assert module_cache.load_module(SOURCE).ANSWER == 42
    finally:
        os.umask(before)
    (file,) = wanted.glob("*.py")
    assert [p.stat().st_mode & 0o777 for p in (wanted.parent, wanted, file)] == [
        0o700, 0o700, 0o600
    ]  # fmt: skip


@pytest.mark.parametrize("place", ["kernels", "above"])
def test_a_place_where_others_write_is_passed_over(wanted: Path, place: str) -> None:
    """Where the last part is this user's own, another user can still swap it."""
    (wanted / "__pycache__").mkdir(parents=True)
    wanted.chmod(0o777 if place == "kernels" else 0o700)
    wanted.parent.chmod(0o777 if place == "above" else 0o700)
    with pytest.warns(RuntimeWarning, match="compiled code is not kept: .* remove it, or name"):
        path = module_cache.cache_directory()
    assert path.name.startswith("vertexsdk-")
    assert path.stat().st_mode & 0o777 == 0o700
    assert path == module_cache.cache_directory()  # and is warned of once


def test_a_guessable_directory_is_no_fallback(
    wanted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess = tmp_path / f"vertexsdk-{os.getuid()}" / "kernels"
    guess.mkdir(0o700, parents=True)
    guess.parent.chmod(0o777)
    wanted.parent.write_text("no directory")
    with pytest.warns(RuntimeWarning, match="is not a directory"):
        assert guess not in [(path := module_cache.cache_directory()), *path.parents]


def test_a_module_that_another_user_wrote_is_written_again(wanted: Path) -> None:
    name = module_cache.load_module(SOURCE).__name__
    file = wanted / f"{name}.py"
    for text, mode in (("ANSWER = 'planted'\n", 0o600), (SOURCE, 0o666)):
        del sys.modules[name]
        file.write_text(text)
        file.chmod(mode)
        assert module_cache.load_module(SOURCE).ANSWER == 42
        assert (file.read_text(), file.stat().st_mode & 0o777) == (SOURCE, 0o600)
