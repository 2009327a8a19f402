"""``python -m benchmarks``: all suites; with a name first, that suite, the page or the check."""

from __future__ import annotations

import importlib
import signal
import sys

from benchmarks.registry import SUITES, TOOLS


def main() -> int:
    """Hand the arguments to what the first one names."""
    name, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    known = [*SUITES, *TOOLS]
    if not name or name.startswith("-"):
        name, rest = "benchmarks.every", sys.argv[1:]
    elif name not in known:
        print(f"usage: python -m benchmarks [{{{','.join(known)}}}] ...; see benchmarks/README.md")
        return 2
    # So that a run which is told to stop ends its children too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    suite = SUITES.get(name)
    named = suite.load() if suite else importlib.import_module(TOOLS.get(name, name))
    status: int = named.main(rest)
    return status


if __name__ == "__main__":
    sys.exit(main())
