"""Stateful classes: plain classes whose state is divided by key, and the loop that runs them.

`elements` has what a class keeps its state in, `placement` where, and `stateful` its base. The
analysis of a class makes a keyed program of it, which `engine.keyed` runs; `stateful_loop` is the
user's object, and reads what is stored; `keyed_loop` is what it has in common with the loop of
triggers. `call_columns` has the arguments of many calls, `call_stream` reads them from files, and
`stateful_client` calls from another process.
"""

__all__ = [
    "analysis",
    "call_columns",
    "call_service",
    "call_stream",
    "elements",
    "keyed_loop",
    "placement",
    "stateful",
    "stateful_client",
    "stateful_loop",
]
