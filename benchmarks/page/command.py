"""``python -m benchmarks page``: one HTML file out of the newest results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.page.found import newest
from benchmarks.page.html import page

__all__ = ["main", "write"]


def main(arguments: list[str]) -> int:
    """Write the page. Exit status 0, 2 when there is nothing to show or no place to write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks page", description=__doc__)
    add = parser.add_argument
    add("--results", metavar="DIR", default="benchmarks/results", help="where the results are")
    add("--out", metavar="FILE", help="the page (default: index.html among the results)")
    options = parser.parse_args(arguments)
    results = Path(options.results)
    try:
        made = write(results, Path(options.out) if options.out else results / "index.html")
    except (OSError, ValueError) as error:
        print(f"page: {error}", file=sys.stderr)
        return 2
    print(f"written: {made}", file=sys.stderr)
    return 0


def write(results: Path, out: Path) -> Path:
    """Make the page of the results in a folder.

    Raises:
        ValueError: no result there has a document.
    """
    found = newest(results, lambda line: print(f"page: {line}", file=sys.stderr))
    if not found:
        raise ValueError(f"no result with a document in {results}; run a suite first")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(found), encoding="utf-8")
    return out
