"""A copy of the sources, a wheel of it, and environments which hold only the dependencies."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("vertexsdk", "backends", "algorithms")
SOURCES = (*PACKAGES, "setup.py", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(autouse=True)
def installed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have processes import what is installed, not the checkout."""
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script ./dev as a module, whose commands were not run."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("dev", str(ROOT / "dev"))
    spec = spec_from_loader("dev", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the package is built from, away from the checkout, where builds would leave files."""
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="session")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without an isolated environment, so without the network."""
    out = tmp_path_factory.mktemp("dist")
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(sources)]
    built = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """The Python of a new environment with everything this one has, but for vertexsdk itself."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    inside = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "vertexsdk" not in entry.name and entry.name != "__pycache__":
            (inside / entry.name).symlink_to(entry)
    return home / "bin" / "python"


@pytest.fixture
def imports(tmp_path: Path) -> Callable[[Path], list[str]]:
    """Import the package's three parts in a Python; the file each came from."""

    def imported(python: Path) -> list[str]:
        code = (
            "import vertexsdk, vertexsdk.backends, vertexsdk.algorithms, importlib.util as u\n"
            "assert not any(u.find_spec(name) for name in ('backends', 'algorithms'))\n"
            "for m in vertexsdk, vertexsdk.backends, vertexsdk.algorithms: print(m.__file__)\n"
        )
        done = subprocess.run(
            [python, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return imported
