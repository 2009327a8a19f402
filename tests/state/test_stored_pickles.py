"""Pickles of a trusted store that cannot be read are said in one line."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from vertexsdk.arrays.arrow_table import Table, encode
from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.errors import StateError
from vertexsdk.state.stored_pickles import unpickle


@pytest.fixture
def of_a_lost_module() -> Iterator[list[Any]]:
    """Objects of a class whose module is there until it is taken from `sys.modules`."""
    module = ModuleType("lost_module")
    module.Thing = type("Thing", (), {"__module__": "lost_module"})  # type: ignore[attr-defined]
    sys.modules["lost_module"] = module
    yield [module.Thing()]
    sys.modules.pop("lost_module", None)


class Raises:
    """Its pickle raises what nobody expects."""

    def __reduce__(self) -> Any:
        return divmod, (1, 0)


@pytest.mark.parametrize(
    "data",
    [b"", b"junk", pickle.dumps((1, 2))[:-3], pickle.dumps([1, 2]), pickle.dumps((1, 2, 3)),
     pickle.dumps((1, "2")), pickle.dumps((Raises(), 2))],
)  # fmt: skip
def test_what_is_not_the_tuple_is_damaged(data: bytes) -> None:
    assert unpickle(pickle.dumps((1, 2)), int, int) == (1, 2)
    with pytest.raises(CorruptError, match=r"^a pickle [^\n]*$"):
        unpickle(data, int, int)


def test_a_class_that_cannot_be_imported_is_named(of_a_lost_module: list[Any]) -> None:
    data = pickle.dumps(tuple(of_a_lost_module))
    values = np.fromiter(of_a_lost_module, object)
    table = Table(b"".join(encode({"id": np.arange(1), "thing": values})))
    del sys.modules["lost_module"]
    for read in (lambda: unpickle(data), lambda: table.column("thing", trusted=True)):
        with pytest.raises(StateError, match=r"No module named 'lost_module'\): have its class"):
            read()


def test_a_damaged_object_of_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.fromiter([{"a": 1}, Raises()], object)
    table = Table(b"".join(encode({"id": np.arange(2), "thing": values})))
    with pytest.raises(CorruptError, match=r"a pickle cannot be read .ZeroDivisionError"):
        table.column("thing", trusted=True)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("vertexsdk.deltas", "Sent"),
        ("vertexsdk.event_nodes", "Node"),
        ("vertexsdk.engine.events._node", "Node"),
        ("vertexsdk.event_versions", "At"),
        ("vertexsdk.engine.events._resident_versions", "Position"),
        ("vertexsdk.engine.events._node_segments", "Position"),
        ("vertexsdk.load.names", "Names"),
        ("vertexsdk.graph.string_ids", "StringIds"),
    ],
)
def test_classes_that_have_moved_are_read(module: str, name: str) -> None:
    (cls,) = unpickle(f"(c{module}\n{name}\nt.".encode())
    names = {"At": "Position", "Names": "StringIds"}
    assert cls.__name__ == names.get(name, name)
