"""The package imports from an editable install and from the wheel, with both of its outer rooms."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging


def pip_install(python: Path, *what: str) -> None:
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--no-index", *what], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


def test_nothing_is_installed_before(bare_python: Path, tmp_path: Path) -> None:
    command = [bare_python, "-c", "import vertexsdk"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert "No module named 'vertexsdk'" in done.stderr


def test_editable(bare_python: Path, sources: Path, imports: Callable[[Path], list[str]]) -> None:
    pip_install(bare_python, "--editable", str(sources))
    rooms = ("vertexsdk", "backends", "algorithms")
    assert imports(bare_python) == [str(sources / room / "__init__.py") for room in rooms]


def test_wheel(bare_python: Path, wheel: Path, imports: Callable[[Path], list[str]]) -> None:
    pip_install(bare_python, str(wheel))
    environment = str(bare_python.parents[1])
    assert all(place.startswith(environment) for place in imports(bare_python))


def test_console_script(bare_python: Path, wheel: Path) -> None:
    pip_install(bare_python, str(wheel))
    script = bare_python.parent / "vertexsdk"
    done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout
    assert "query" in done.stdout


def test_wheel_holds_every_module_and_nothing_else(wheel: Path, sources: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    inner = [file for room in ("backends", "algorithms") for file in (sources / room).rglob("*.py")]
    modules = {
        file.relative_to(sources / "vertexsdk") for file in (sources / "vertexsdk").rglob("*.py")
    }
    modules |= {file.relative_to(sources) for file in inner}
    expected = {f"vertexsdk/{module}" for module in modules}
    assert {name for name in names if name.endswith(".py")} == expected
    assert "vertexsdk/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
