"""Generated code is run as it is read, so it is read only where nobody else can write."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import tempfile
from pathlib import Path

import numba
import pytest
from numba.core.caching import UserWideCacheLocator
from numba.core.dispatcher import Dispatcher

import vertexsdk
from vertexsdk import algorithms
from vertexsdk.arrays import jit, prefetch, private_files
from vertexsdk.compile import module_cache

SOURCE = "ANSWER = 42\n"


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERTEXSDK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module_cache, "_DIGEST", tmp_path.name)  # modules of this test alone
    private_files._own_directory.cache_clear()
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
        path = private_files.cache_directory()
    assert path.name.startswith("vertexsdk-")
    assert path.stat().st_mode & 0o777 == 0o700
    assert path == private_files.cache_directory()  # and is warned of once


def test_a_guessable_directory_is_no_fallback(
    wanted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess = tmp_path / f"vertexsdk-{os.getuid()}" / "kernels"
    guess.mkdir(0o700, parents=True)
    guess.parent.chmod(0o777)
    wanted.parent.write_text("no directory")
    with pytest.warns(RuntimeWarning, match="is not a directory"):
        assert guess not in [(path := private_files.cache_directory()), *path.parents]


def test_a_module_that_another_user_wrote_is_written_again(wanted: Path) -> None:
    name = module_cache.load_module(SOURCE).__name__
    file = wanted / f"{name}.py"
    for text, mode in (("ANSWER = 'planted'\n", 0o600), (SOURCE, 0o666)):
        del sys.modules[name]
        file.write_text(text)
        file.chmod(mode)
        assert module_cache.load_module(SOURCE).ANSWER == 42
        assert (file.read_text(), file.stat().st_mode & 0o777) == (SOURCE, 0o600)


PLANTED = "with open({!r}, 'w') as f: f.write('ran')"


class Planted:
    """What an attacker pickles: reading it runs code."""

    def __init__(self, proof: Path) -> None:
        self.code = PLANTED.format(str(proof))

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (self.code,)


def test_numba_s_own_cache_is_not_read(
    wanted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the user's cache directory, where NUMBA_CACHE_DIR says, and beside the module."""
    (tmp_path / "installed").mkdir()
    file, proof = tmp_path / "installed" / "planted_kernels.py", tmp_path / "proof"
    file.write_text(
        "from vertexsdk.arrays.jit import njit\n\n@njit\ndef twice(x):\n    return 2 * x\n"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(file.parent))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "chosen"))
    of_file = UserWideCacheLocator.get_suitable_cache_subpath(str(file))
    for place in (tmp_path / "numba" / of_file, tmp_path / "chosen" / of_file,
                  file.parent / "__pycache__"):  # fmt: skip
        place.mkdir(parents=True)
        index = place / f"planted_kernels.twice-3.py{sys.version_info[0]}{sys.version_info[1]}.nbi"
        index.write_bytes(pickle.dumps(Planted(proof)))
    module = importlib.import_module("planted_kernels")
    assert module.twice(4) == 8
    assert not proof.exists()
    (kept,) = wanted.rglob("twice*.nbi")
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    kept.parent.chmod(0o770)  # planted while others could write there
    kept.write_bytes(pickle.dumps(Planted(proof)))
    assert importlib.reload(module).twice(4) == 8
    assert not proof.exists()


def test_no_kernel_of_the_package_has_another_cache() -> None:
    kernels = 0
    for package in (vertexsdk, algorithms):
        root = Path(package.__path__[0])
        for file in root.rglob("*.py"):
            if "import njit" in file.read_text():
                parts = file.relative_to(root).with_suffix("").parts
                module = importlib.import_module(".".join([package.__name__, *parts]))
                for name, value in vars(module).items():
                    if isinstance(value, Dispatcher):
                        kernels += 1
                        assert isinstance(vars(value)["_cache"], jit._PrivateCache), (file, name)
    assert kernels > 50


def test_modules_are_new_where_what_they_prefetch_with_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Changed:
        @staticmethod
        def get_source(name: str) -> str:
            return f"# {name}"

    before = module_cache._engine_digest()
    monkeypatch.setattr(prefetch, "__loader__", Changed)
    assert module_cache._engine_digest() != before
