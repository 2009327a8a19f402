"""./dev asks before it installs a system package; what it gives to pytest."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def asked(dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java; its apt-get writes to the file what it was asked, no more."""
    file = tmp_path / "asked"
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "apt-get").write_text(f'#!{shutil.which("sh")}\necho "$@" >> {file}\nexit 100\n')
    (programs / "apt-get").chmod(0o755)
    (programs / "env").symlink_to(str(shutil.which("env")))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(dev, "JAVA_PLACES", ())
    monkeypatch.setattr(dev, "AGREED", False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return file


def refusal(dev: ModuleType) -> str:
    with pytest.raises(SystemExit) as stopped:
        dev.use_java()
    assert "\n" not in str(stopped.value)
    return str(stopped.value)


def test_nothing_is_installed_where_nobody_can_be_asked(
    dev: ModuleType, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        said = refusal(dev)
    assert "apt-get install openjdk-17-jre-headless" in said
    assert "--yes" in said
    assert not asked.exists()


@pytest.mark.parametrize(("answer", "installs"), [("y", True), ("", False), ("no", False)])
@pytest.mark.full
def test_somebody_at_a_terminal_is_asked(
    dev: ModuleType,
    asked: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    installs: bool,
) -> None:
    ours, theirs = os.openpty()
    with open(ours, "w") as keyboard, open(theirs) as terminal:
        keyboard.write(answer + "\n")
        keyboard.flush()
        monkeypatch.setattr("sys.stdin", terminal)
        refusal(dev)
    assert "install openjdk-17-jre-headless by apt-get? [y/N]" in capsys.readouterr().out
    assert asked.exists() == installs


@pytest.mark.full
def test_who_said_yes_before_is_not_asked(
    dev: ModuleType, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "AGREED", True)
    assert "--yes" not in refusal(dev)
    assert "-q -y install --no-install-recommends openjdk-17-jre-headless" in asked.read_text()


def test_a_master_is_for_the_tests_of_the_engine(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, ...]] = []
    monkeypatch.setattr(dev, "archive_classes", lambda: None)
    monkeypatch.setattr(dev, "pytest", lambda *arguments: given.append(arguments) or 0)
    assert dev.test(["--master", "standalone"]) == 0
    dev.test(["--master=local[2]", "tests/graph", "-x"])
    assert given == [
        ("--master", "standalone", "tests/engine", "tests/loops", "tests/graph", "tests/cluster"),
        ("--master=local[2]", "tests/graph", "-x"),
    ]


@pytest.mark.parametrize(
    ("page", "loads"),
    [
        ('<script src="https://cdn.org/a.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.org/b.css">', True),
        ("<style>@font-face {src: url(https://fonts.org/c.woff)}</style>", True),
        ('<pre class="mermaid"><code>a --> b</code></pre>', True),
        ('<a href="https://spark.apache.org">Spark</a>', False),
        ('<link href="https://docs.org/page/" rel="canonical">', False),
        ('<script src="../assets/bundle.js"></script>', False),
    ],
)
def test_pages_that_load_from_another_host(
    dev: ModuleType, tmp_path: Path, page: str, loads: bool
) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text(page)
    assert bool(dev.loads_from_elsewhere(tmp_path)) == loads
