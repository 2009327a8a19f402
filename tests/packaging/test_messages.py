"""What holds for every message: places of installed packages, flags, warnings, inner programs."""

from __future__ import annotations

import ast
import importlib.util
import logging
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk import Graph, InputError, ProgramError, RunError, VertexError, run
from vertexsdk.arrays import private_files
from vertexsdk.backends import open_backend
from vertexsdk.cli import main
from vertexsdk.cli._main import with_flags
from vertexsdk.errors import StateInputError
from vertexsdk.program.program import _NOT_ATTRIBUTES
from vertexsdk.program.vertex import Target
from vertexsdk.state import open_store

ROOT = Path(__file__).parents[2]
FLAG = re.compile(r"(?<![\w-])--[a-z]")

PROGRAMS = """\
from vertexsdk import Sum, Vertex, state


class Odd(Vertex):
    x: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.x = float("1" + "e" * 0) * 1e308 * 10.0

    def scatter(self, iteration):
        self.emitAll(1.0)


class Failing(Odd):
    def gather(self, iteration, source, delta):
        raise ValueError("it fails")
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of programs in a directory of installed packages."""
    path = tmp_path / "python3" / "site-packages" / "theirs.py"
    path.parent.mkdir(parents=True)
    path.write_text(PROGRAMS)
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location("theirs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "theirs", module)
    spec.loader.exec_module(module)
    return module


def test_no_message_begins_with_a_place_in_an_installed_package(installed: ModuleType) -> None:
    graph = Graph.from_arrays([1, 2], [2, 1])
    with pytest.raises(RunError) as failed:
        run(installed.Failing, graph, backend="memory://messages", compiled=False)
    assert str(failed.value).startswith("Failing.gather: ValueError: it fails (vertex ")
    assert str(failed.value).endswith(" (theirs.py:17)")
    with pytest.warns(
        UserWarning, match=r"^Odd: in the answer x is infinite .*theirs\.py:5\)$"
    ) as w:
        run(installed.Odd, graph, backend="memory://messages", compiled=False).close()
    assert w[0].filename == __file__
    with pytest.raises(ProgramError) as refused:
        type("Wrong", (installed.Odd,), {"gather": installed.Odd.gather, "direction": "up"})
    assert str(refused.value).startswith("Wrong: direction = 'up'")


def test_warnings_name_the_line_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> Path:
        raise OSError(f"no room in {tmp_path} for {path}")

    monkeypatch.setattr(private_files, "make_private", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="compiled code is not kept") as w:
        private_files.cache_directory()
    assert w[0].filename == __file__


def test_no_hint_names_a_flag_but_in_a_whole_command() -> None:
    """The command line writes flags in place of arguments: see `with_flags`."""
    wrong = []
    for path in [*ROOT.glob("vertexsdk/**/*.py"), *ROOT.glob("[ab][la]*s/*.py")]:
        source = path.read_text()
        if path.parent.name == "cli" or not FLAG.search(source):
            continue
        tree = ast.parse(source)
        texts = {
            id(node.body[0].value) for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and node.body and isinstance(node.body[0], ast.Expr)
        }  # fmt: skip
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            text = re.sub(r"`vertexsdk [^`]*`", "", node.value)
            if id(node) not in texts and FLAG.search(text):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert not wrong


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a.csv: by ';': give separator=';'", "a.csv: by ';': give --separator ';'"),
        ("say which: source=, target=", "say which: --source-column, --target-column"),
        ("say format='csv'", "say --format 'csv'"),
        ("ask again with another timeout=, or", "ask again with another --timeout, or"),
    ],
)
def test_the_command_line_names_flags(text: str, shown: str) -> None:
    assert with_flags(text) == shown


@pytest.mark.parametrize(
    "url",
    [
        "memory://a[b]", "lmdb://a[b]/c", "lmdb:///tmp/%00", "redis://[::1/0", "redis://h:no/0",
        "redis://[h]/0", "postgresql://u:secret@[x/db", "postgresql://[h]/db",
        "memory://u:secret@\uff03", "lmdb:///x?map=many",
    ],
)  # fmt: skip
@pytest.mark.parametrize("create", [True, False])
def test_a_malformed_address_is_said_in_one_line(url: str, create: bool) -> None:
    for package in ("redis", "psycopg"):
        pytest.importorskip(package)
    with pytest.raises(StateInputError) as refused:
        open_backend(url, create=create)
    text = str(refused.value)
    assert url.partition("://")[0] in text
    assert re.search("write|takes", text)
    assert not re.search("secret|\n", text)


def test_a_path_that_lacks_a_slash_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = rf"lmdb://tmp/x is {tmp_path}/tmp/x; for /tmp/x write lmdb:///tmp/x"
    with pytest.raises(StateInputError, match=f"^there is no store: {said}$"):
        open_store("lmdb://tmp/x", create=False)
    with pytest.warns(UserWarning, match=f"^{said}$") as w:
        open_store("lmdb://tmp/x").close()
    assert w[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_store("lmdb://tmp/x").close()  # it is there
        open_store("lmdb://not-at-the-root/x").close()
        open_store(f"lmdb://{tmp_path}/y").close()


@pytest.mark.parametrize("name", ["louvain", "leiden", "bridges", "forest", "truss", "node2vec"])
def test_inner_programs_are_neither_named_nor_left_behind(
    name: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed())
    source, target = rng.integers(0, 12, (2, 40))
    graph = Graph.from_arrays([*source, *source], [*target, *target], partitions=2)
    params: dict[str, Any] = {"walks": 1, "length": 3} if name == "node2vec" else {}
    with caplog.at_level(logging.INFO, "vertexsdk"):
        run(name, graph, backend=f"lmdb://{tmp_path}/store", params=params).close()
    said = [record.getMessage() for record in caplog.records]
    assert sum("duplicate edges" in line for line in said) == 1
    assert {line.partition(":")[0] for line in said} == {f"{name}-run"}
    with open_store("memory://prepare") as store:
        assert not [loop for loop in store.loops() if "prepare" in loop]


def test_what_is_said_of_edges_is_said_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("1 b\nb 10\nc 1\nc 1\n")
    graph = Graph.read(str(path))
    for program in ("wcc", "degree", "louvain"):
        run(program, graph, backend="memory://messages").close()
        run(program, graph.with_attributes({"id": ["b"], "x": [1]}), backend="memory://m").close()
    said = [record.getMessage() for record in caplog.records]
    assert sum("duplicate edges" in line for line in said) == 1
    assert sum("all are taken as strings" in line for line in said) == 1


def test_the_command_line_prints_a_warning_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.py").write_text(PROGRAMS)
    Path("edges.txt").write_text("1 2\n2 1\n")
    Path("changes.txt").write_text("".join(f"+ {k} {k + 1}\n" for k in range(2, 8)))
    line = ["stream", "odd.py:Odd", "--edges", "edges.txt", "--changes", "changes.txt"]
    options = ["--query-every", "2", "--engine", "local", "--max-iterations", "2"]
    assert main([*line, *options, "--backend", f"lmdb://{tmp_path}/store"]) == 0
    printed = capsys.readouterr().err.splitlines()
    assert len({*printed}) == len(printed)
    assert sum("in the answer x is infinite" in text for text in printed) == 1


def test_reserved_names_of_edge_attributes_are_all_refused_and_documented() -> None:
    own = {name for name in dir(Target(1)) if not name.startswith("_")}
    assert own <= {*_NOT_ATTRIBUTES}
    text = (ROOT / "docs" / "attributes.md").read_text()
    (listed,) = re.findall(r"Reserved names of edge attributes: (.*?)\.", text, re.DOTALL)
    assert re.findall(r"`(\w+)`", listed) == [*_NOT_ATTRIBUTES]


def test_errors_keep_their_type_and_text_when_pickled() -> None:
    import pickle

    error = VertexError("/usr/lib/site-packages/a/b.py:3: B.gather: no")
    assert str(error) == "B.gather: no (a/b.py:3)"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (VertexError, str(error))
    assert str(InputError("/home/me/b.py:3: no")) == "/home/me/b.py:3: no"
