"""What is tried with a fault at each of its calls to the store: a main loop, and runs.

The habit is SQLite's: a fault at the first call, then at the second, and so on, until the scenario
passes without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.support.store_clients import Client
from tests.support.store_faults import KINDS, NthFault
from tests.support.store_sessions import nth_store_failure

__all__ = ["loop_steps", "nth_failure", "soak_faults"]

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


def soak_faults(url: str) -> str:
    """Have each call of `store_sessions.store_steps` and of `loop_steps` fail in each way.

    Args:
        url: of an empty store.

    Returns:
        How many did, in words.

    Raises:
        AssertionError: something was lost, doubled or wrong.
    """
    counts = []
    for scenario in (nth_store_failure, nth_failure):
        counts.append(0)
        for kind in KINDS:
            number = 1
            while True:
                try:
                    if not scenario(url, kind, number).fired:
                        break
                except BaseException:
                    print(f"{scenario.__name__}({url!r}, {kind!r}, {number}) fails")
                    raise
                number += 1
            counts[-1] += number - 1
    return f"{counts[0]} faults in sessions, {counts[1]} in main loops; nothing was lost"
