"""Asks the process of a main loop for an exact answer; see `query_service`."""

from __future__ import annotations

from vertexsdk.loops.request_client import RequestClient
from vertexsdk.state import open_store
from vertexsdk.state.address import Address

_START = "start `vertexsdk stream --follow`, or call serve_queries() of its MainLoop"
_INSTEAD = "read its newest version, without asking for an exact answer"


def ask(backend: str | Address, loop: str, timeout: float | None = None) -> str:
    """Have the process of a main loop compute the exact answer.

    Args:
        backend: URL of the loop's store.
        timeout: seconds after which its iterations are stopped.

    Returns:
        The name of the answer in the store.

    Raises:
        InputError: no process answers the queries of the loop.
        RunError: the answer could not be computed, its process ended, or it did not answer in time.
    """
    with open_store(backend, create=False) as store:
        if store.head(loop) is None:
            raise store.unknown_loop(loop)
        client = RequestClient(store, loop, "queries", _START, _INSTEAD)
    with client:
        return str(client.ask({"timeout": timeout}, timeout)["loop"])
