"""``python -m benchmarks``: all suites; with a name first, that suite, the page or the check."""

from __future__ import annotations

import importlib
import signal
import sys

from benchmarks.registry import SUITES, TOOLS


def main() -> int:
    """Hand the arguments to what the first one names."""
    name, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    modules = {suite.name: suite.module for suite in SUITES.values()} | TOOLS
    if not name or name.startswith("-"):
        module, rest = "benchmarks.every", sys.argv[1:]
    elif name in modules:
        module = modules[name]
    else:
        known = ",".join(modules)
        print(f"usage: python -m benchmarks [{{{known}}}] ...; see benchmarks/README.md")
        return 2
    # So that a run which is told to stop ends its children too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    status: int = importlib.import_module(module).main(rest)
    return status


if __name__ == "__main__":
    sys.exit(main())
