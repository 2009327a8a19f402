"""Python objects that a store keeps as pickles, read also where their classes have moved since."""

from __future__ import annotations

import io
import pickle
from typing import Any

from vertexsdk.arrays.corruption import CorruptError, unpickling

# (module, class) as in stores that exist -> as they are now. Add a line when such a class moves.
_MOVED = {
    ("vertexsdk.deltas", "Sent"): ("vertexsdk.graph.changes.deltas", "Sent"),
    ("vertexsdk.event_nodes", "Node"): ("vertexsdk.engine._node", "Node"),
    ("vertexsdk.engine.events._node", "Node"): ("vertexsdk.engine._node", "Node"),
    ("vertexsdk.event_versions", "At"): (
        "vertexsdk.engine._events_loop_partition",
        "Position",
    ),
    ("vertexsdk.engine.events._node_segments", "Position"): (
        "vertexsdk.engine._events_loop_partition",
        "Position",
    ),
    ("vertexsdk.engine.events._resident_versions", "Position"): (
        "vertexsdk.engine._events_loop_partition",
        "Position",
    ),
    ("vertexsdk.load.names", "Names"): ("vertexsdk.graph.topology.string_ids", "StringIds"),
    ("vertexsdk.graph.string_ids", "StringIds"): (
        "vertexsdk.graph.topology.string_ids",
        "StringIds",
    ),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(*_MOVED.get((module, name), (module, name)))


def unpickle(data: bytes, *members: type) -> tuple[Any, ...]:
    """Read a tuple of a store. A pickle can run code, so its writer must be trusted.

    Args:
        data: as `pickle.dumps` returned it, in this version of the package or an earlier one.
        members: the types of its members; if none is given, they are of any number and type.

    Returns:
        The tuple.

    Raises:
        CorruptError: the bytes are not such a pickle.
        StateError: one of its classes cannot be imported.

    Example:
        >>> unpickle(pickle.dumps(({"rank": 1}, 2)), dict, int)
        ({'rank': 1}, 2)
    """
    with unpickling():
        values = _Unpickler(io.BytesIO(data)).load()
    if not isinstance(values, tuple):
        raise CorruptError(f"a pickle is {type(values).__name__}, not a tuple")
    if members and not (len(values) == len(members) and all(map(isinstance, values, members))):
        raise CorruptError(f"a pickle holds ({', '.join(type(x).__name__ for x in values)})")
    return values
