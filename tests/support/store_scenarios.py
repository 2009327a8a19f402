"""What is tried with a fault at each of its calls to the store: a main loop, and runs.

The habit is SQLite's: a fault at the first call, then at the second, and so on, until the scenario
passes without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.support.store_clients import Client
from tests.support.store_faults import NthFault

__all__ = ["count_calls", "loop_steps", "nth_failure"]

OPTIONS = {"retain": 4, "keep_answers": 2}


def loop_steps(client: Client) -> Iterator[None]:
    """Everything that a driver of a main loop does with the store, a step each."""
    yield client.open()
    yield client.ingest(client.rows(4))
    yield client.query(persist=True)
    yield client.ingest(client.rows(3))
    yield client.lookup()
    yield client.branch(client.rows(3), "merge")
    yield client.ingest(client.rows(2))
    yield client.query()
    yield client.snapshot()
    yield client.branch(client.rows(2), "forget")
    yield client.ingest(client.rows(2))
    yield client.query(persist=True)
    yield client.maintain("compact")
    yield client.ingest(client.rows(1))
    yield client.maintain("prune")
    yield client.maintain("collect")
    yield client.resume()
    yield client.second_driver()


def nth_failure(
    url: str,
    kind: str,
    number: int,
    steps: Callable[[Client], Iterator[None]] = loop_steps,
    methods: set[str] | None = None,
) -> NthFault:
    """Take the steps with a fault at one call.

    Args:
        url: of an empty store.
        kind, number, methods: see `NthFault`.

    Returns:
        The faults; one that was not injected has `fired` empty.

    Raises:
        AssertionError: something was lost, doubled or wrong.
    """
    faults = NthFault(kind, number, methods)
    with faults.installed():
        client = Client(url, faults, number, options=OPTIONS)
        seen = 0
        try:
            for _ in steps(client):
                if len(faults.fired) > seen:
                    client.check()
                    seen = len(faults.fired)
            client.close()
        finally:
            client.end()
    return faults


def count_calls(url: str, kind: str, steps: Callable[[Client], Iterator[None]] = loop_steps) -> int:
    """How many calls of the steps can fail in a way."""
    return nth_failure(url, kind, 0, steps)._seen
