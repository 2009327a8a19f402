"""Make the graph of the demo: which modules of Python's standard library import which.

    python examples/stdlib_imports.py > examples/data/stdlib-imports.txt

Every `import` statement in the library's sources counts, also inside functions; tests are left out.
A line is `importer imported`. The file in examples/data was made by Python 3.11.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "__pycache__", "lib-dynload"}


def sources(library: Path) -> Iterator[tuple[str, Path]]:
    """Yield (module name, file) for every module below `library`."""
    for file in sorted(library.rglob("*.py")):
        parts = file.relative_to(library).with_suffix("").parts
        if LEFT_OUT.isdisjoint(parts) and all(part.isidentifier() for part in parts):
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def imported(tree: ast.AST, module: str, package: str) -> Iterator[str]:
    """Yield the names that the statements of `module` may import, modules and their members."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            origin = ".".join([*(base if node.level else []), *filter(None, [node.module])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def main() -> None:
    """Print the file: a heading, then one line per edge, in the order of the importers' names."""
    print("# importer imported: the standard library of Python", *sys.version.split()[:1])
    files = dict(sources(Path(sysconfig.get_path("stdlib"))))
    known = set(files) | set(sys.stdlib_module_names)
    for module, file in sorted(files.items()):
        tree = ast.parse(file.read_bytes())
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        for target in sorted(set(imported(tree, module, package)) & known - {module}):
            print(module, target)


if __name__ == "__main__":
    main()
