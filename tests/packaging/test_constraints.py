"""What ./dev installs is pinned, whole, by version and hash, and no file names an address."""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FILES = ["constraints.txt", "benchmarks/pathway.txt", "tools.txt", "spark-4.2.txt"]
PIN = re.compile(r"([\w.-]+)==([\w.]+)(?: ; [^\\\n]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n")


def pins(name: str) -> dict[str, str]:
    return {canonical(n): version for n, version in PIN.findall((ROOT / name).read_text())}


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[=<>~! ]", requirement)[0]).lower()


@pytest.mark.parametrize("name", FILES)
def test_pins_are_exact_versions_with_hashes_and_no_addresses(name: str) -> None:
    text = (ROOT / name).read_text()
    assert re.sub(r"^#.*\n", "", PIN.sub("", text), flags=re.M) == ""
    assert "://" not in text
    assert "pip" in pins(name)


def test_every_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for extra in project["optional-dependencies"].values() for name in extra]
    wanted = {canonical(name) for name in (*project["dependencies"], *extras)}
    assert wanted <= pins("constraints.txt").keys()


def test_every_crate_is_pinned() -> None:
    wanted = tomllib.loads((ROOT / "benchmarks/dataflow/Cargo.toml").read_text())["dependencies"]
    versions = [v if isinstance(v, str) else v["version"] for v in wanted.values()]
    assert len(versions) > 20
    assert all(re.fullmatch(r"=\d+\.\d+\.\d+", version) for version in versions)


@pytest.mark.packaging
def test_a_file_of_another_hash_is_not_installed(
    dev: ModuleType, wheel: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    versions = tmp_path / "constraints.txt"
    where = ["--no-index", "--find-links", str(wheel.parent), "--no-deps"]
    where += ["--target", str(tmp_path / "there"), "vertexsdk"]
    version = wheel.name.split("-")[1]
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for told in (f" --hash=sha256:{'0' * 64}", ""):
        versions.write_text(f"vertexsdk=={version}{told}\n")
        assert not dev.install(sys.executable, versions, *where)
        assert "hash" in capfd.readouterr().err.lower()
    versions.write_text(f"vertexsdk=={version} --hash=sha256:{right}\n")
    assert dev.install(sys.executable, versions, *where)
    assert (tmp_path / "there" / "vertexsdk").is_dir()
