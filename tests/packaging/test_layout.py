"""The layout of the package: its rooms, what each exports, and no circles among its files.

The order of the rooms is held by import-linter in `./dev check`.
"""

from __future__ import annotations

import ast
import pkgutil
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import vertexsdk

ROOT = Path(__file__).parents[2]
FILES = {"__init__.py", "__main__.py", "errors.py", "py.typed"}
LAYERS = next(  # from the uppermost to the lowest
    contract["layers"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    if contract["type"] == "layers"
)
ROOMS = {*LAYERS} - {"errors"}
OTHER_TESTS = {
    "__init__.py", "algorithms", "benchmarks", "cluster", "conftest.py", "docs", "examples",
    "packaging", "support",
}  # fmt: skip
HELPERS = {"Any", "TYPE_CHECKING", "annotations"}
TOPS = {"vertexsdk": "vertexsdk", "backends": "vertexsdk.backends"}
TOPS |= {"algorithms": "vertexsdk.algorithms"}


def sources() -> Iterator[tuple[str, Path]]:
    """Every module of the wheel, with its file."""
    for top, name in TOPS.items():
        for file in (ROOT / top).rglob("*.py"):
            parts = file.relative_to(ROOT / top).with_suffix("").parts
            yield ".".join([name, *(p for p in parts if p != "__init__")]), file


MODULES = dict(sources())
PLUGINS = ("vertexsdk.backends", "vertexsdk.algorithms")
PACKAGES = sorted(
    m for m, f in MODULES.items()
    if f.name == "__init__.py" and m != "vertexsdk" and not m.startswith(PLUGINS)
)  # fmt: skip


def imports(file: Path) -> set[str]:
    """The modules of the wheel which a file imports, wherever in it the import stands."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                modules.add(inner if inner in MODULES else node.module)
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules & MODULES.keys()


def exported(package: ModuleType) -> set[str]:
    """The public names of a package: what its `__init__` binds, and its public modules."""
    modules = {m.name for m in pkgutil.iter_modules(package.__path__)}
    names = {n for n, value in vars(package).items() if not isinstance(value, ModuleType)}
    return {n for n in modules | names if not n.startswith("_")} - HELPERS


def test_the_entries_of_the_package_are_its_rooms() -> None:
    entries = {entry.name for entry in (ROOT / "vertexsdk").iterdir()} - {"__pycache__"}
    assert entries == FILES | ROOMS


def test_the_table_of_rooms_is_the_list_of_import_linter() -> None:
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert rows[: len(LAYERS)] == LAYERS


def test_the_tests_stand_in_the_rooms_that_they_test() -> None:
    entries = {entry.name for entry in (ROOT / "tests").iterdir()} - {"__pycache__"}
    assert entries - ROOMS == OTHER_TESTS


def test_the_public_names_are_all_that_the_package_exports() -> None:
    for name in vertexsdk.__all__:
        getattr(vertexsdk, name)  # those which are imported when they are first used
    assert list(vertexsdk.__all__) == sorted(set(vertexsdk.__all__), key=order)
    rooms = ROOMS - set(vertexsdk.__all__) | {"errors", "backends", "algorithms"}
    assert exported(vertexsdk) - rooms == set(vertexsdk.__all__)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_room_exports_what_it_says(name: str) -> None:
    package = import_module(name)
    assert package.__doc__
    names = getattr(package, "__all__", [])
    assert set(names) == exported(package)
    assert list(names) == sorted(names, key=order)


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_package_exports_what_it_defines(name: str) -> None:
    """Its modules are found by name, and are not part of its `__all__`."""
    package = import_module(name)
    defined = {
        n for n, value in vars(package).items()
        if not n.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", name).startswith(name)
    }  # fmt: skip
    assert set(package.__all__) == defined
    assert list(package.__all__) == sorted(package.__all__, key=order)


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the others, as ruff sorts `__all__`."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def test_a_private_module_is_imported_in_its_directory_alone() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, file in MODULES.items()
        for other in imports(file)
        if other.rpartition(".")[2].startswith("_") and file.parent != MODULES[other].parent
    ]
    assert not wrong


def test_a_private_name_is_used_in_its_module_alone() -> None:
    wrong = [
        f"{module} imports {alias.name} from {node.module}"
        for module, file in MODULES.items()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in MODULES
        for alias in node.names
        if re.match("_[^_]", alias.name) and f"{node.module}.{alias.name}" not in MODULES
    ]
    assert not wrong


def test_no_file_imports_itself_by_way_of_others() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for module, file in MODULES.items():
        if module != "vertexsdk":  # the public names, which nothing below needs
            graph[module] = imports(file) - {module, "vertexsdk"}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_no_directory_imports_itself_by_way_of_others() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for module, file in MODULES.items():
        directory = str(file.parent.relative_to(ROOT))
        if directory == "vertexsdk" or module.startswith(PLUGINS):
            continue  # the public names and the errors; what is loaded by its name
        graph[directory] |= {
            str(MODULES[other].parent.relative_to(ROOT))
            for other in imports(file) - {"vertexsdk", "vertexsdk.errors"}
        } - {directory}
    TopologicalSorter(graph).prepare()
