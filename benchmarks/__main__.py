"""``python -m benchmarks SUITE ...``: one suite per module of `benchmarks.suites`."""

from __future__ import annotations

import importlib
import signal
import sys

SUITES = {
    "asynchrony": "benchmarks.suites.asynchrony",
    "batch": "benchmarks.suites.batch",
    "evolving": "benchmarks.suites.evolving",
    "page": "benchmarks.page.command",
    "soak": "benchmarks.suites.soak",
    "state": "benchmarks.suites.state",
}


def main() -> int:
    """Hand the arguments to the suite that the first one names."""
    if len(sys.argv) < 2 or sys.argv[1] not in SUITES:
        print(f"usage: python -m benchmarks {{{','.join(SUITES)}}} ...; see benchmarks/README.md")
        return 2
    # So that a run which is told to stop ends its children too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    suite = importlib.import_module(SUITES[sys.argv[1]])
    status: int = suite.main(sys.argv[2:])
    return status


if __name__ == "__main__":
    sys.exit(main())
