"""docs/security.md names every place where reading something can run code, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
PACKAGES = ("vertexsdk", "backends", "algorithms")
UNPICKLERS = {"load", "loads", "Unpickler", "PickleSerializer", "CloudPickleSerializer"}
PICKLES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
CODE = {"exec", "eval", "importlib.util.spec_from_file_location", "runpy.run_path"}


def reads_code(node: ast.AST) -> str | None:
    """What makes a node a place where data that is read can run code, or None."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PICKLES:
        return "an import of a name, which this test cannot follow"
    if isinstance(node, ast.ImportFrom) and node.module == "numba.core.caching":
        return "numba's cache"
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id in PICKLES and node.attr in UNPICKLERS | {"open"}:
            return f"{node.value.id}.{node.attr}"
    if isinstance(node, ast.Dict) and any(_is(key, "cache") for key in node.keys):
        return "numba's cache"
    if not isinstance(node, ast.Call):
        return None
    name = ast.unparse(node.func)
    for given in node.keywords:
        if given.arg in ("trusted", "allow_pickle", "cache") and _is(given.value, True):
            return f"{name}({given.arg}=True)"
    return name if name in CODE else None


def _is(node: ast.AST | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def places(tree: ast.AST, within: str = "") -> Iterator[tuple[str, str]]:
    """The functions in which code can be run by what is read, and by what."""
    for node in ast.iter_child_nodes(tree):
        inside = within
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inside = f"{within}.{node.name}".lstrip(".")
        what = reads_code(node)
        if what is not None:
            yield inside or "(module)", what
        yield from places(node, inside)


def in_source() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            if path.startswith("vertexsdk/testing/"):
                continue  # not used by a run; said on the page
            for function, what in places(ast.parse(file.read_text())):
                found.setdefault(f"{path}:{function}", set()).add(what)
    return found


def on_page() -> set[str]:
    section = PAGE.read_text().split("\n## What is unpickled\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {place for cell in cells for place in re.findall(r"`([^`]+)`", cell)}


def test_the_page_names_all_that_can_run_code() -> None:
    found = in_source()
    new = {place: sorted(found[place]) for place in sorted(found.keys() - on_page())}
    assert new == {}, "add these to 'What is unpickled' in docs/security.md, with who is trusted"
    assert on_page() - found.keys() == set(), "these are gone: take them off docs/security.md"


@pytest.mark.parametrize(
    "text",
    [
        "pickle.loads(x)", "pickle.load(f)", "cloudpickle.loads(x)", "read = pickle.loads",
        "pickle.Unpickler(f).load()", "from pickle import loads", "from cloudpickle import loads",
        "np.load(f, allow_pickle=True)", "table.column(n, trusted=True)", "numba.njit(cache=True)",
        "settings = {'cache': True}", "marshal.loads(x)", "shelve.open(x)", "exec(text)",
    ],
)  # fmt: skip
def test_a_new_place_is_seen(text: str) -> None:
    tree = ast.parse(f"class A:\n    def f(self):\n        {text}\n")
    assert {place for place, _ in places(tree)} == {"A.f"}


@pytest.mark.parametrize(
    "text", ["pickle.dumps(x)", "np.load(f)", "json.loads(x)", "f(trusted=trusted)"]
)
def test_what_runs_no_code_is_left_out(text: str) -> None:
    assert list(places(ast.parse(text))) == []
