"""The store of a loop, opened for writing."""

from __future__ import annotations

from contextlib import ExitStack

from vertexsdk.engine.batch_run import refuse_other_hosts
from vertexsdk.errors import warn_caller
from vertexsdk.state import Store, open_store
from vertexsdk.state.address import Address
from vertexsdk.transport.transport import Transport

_warned: set[str] = set()  # stores of which this process has said that they are not durable


def open_loop_store(
    undo: ExitStack, backend: Address, transport: Transport, *, create: bool = True
) -> Store:
    """Open the store, and warn once that what a server acknowledges may be lost with its power.

    Args:
        undo: closes the store.
        backend: the loop's backend.
        transport: where the loop's partitions are; tasks on other hosts have to reach the store.
        create: as for `open_store`.

    Raises:
        InputError: tasks on other hosts cannot reach the store.
        StateError: it cannot be opened.
    """
    store = open_store(backend, create=create)
    undo.callback(store.close)
    refuse_other_hosts(transport, store)
    place = store.backend.location
    if store.backend.shared and place not in _warned and not store.backend.durable:
        _warned.add(place)
        warn_caller(f"{place}: changes are acknowledged, not durable: {store.backend.durability}")
    return store
