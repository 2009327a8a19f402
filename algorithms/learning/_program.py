"""The base of the stateful classes of learners: instances by id, and the model."""

from __future__ import annotations

from typing import Any

from vertexsdk import Partitioned, Stateful, Value, gather_all, on_all
from vertexsdk.algorithms.learning.instances import Instances


class InstancesProgram(Stateful):
    """Instances with int ids, and the model of the main loop."""

    instances = Partitioned(Instances(int), key="id")
    model = Partitioned(Value(bytes))

    def add(self, id: int, target: float, features: bytes) -> None:
        """Set the instance of an id."""
        self.instances.add(id, target, features)

    def remove(self, id: int) -> bool:
        """Remove the instance of an id; return whether there was one."""
        return self.instances.discard(id)  # type: ignore[no-any-return]

    def size(self) -> list[Any]:
        """Return how many instances each partition has."""
        return gather_all(on_all(self.instances).size())

    def classes(self, width: int, sparse: bool) -> list[Any]:
        """Return the different targets of each partition."""
        return gather_all(on_all(self.instances).classes(width, sparse))

    def store(self, model: bytes) -> None:
        """Set the model."""
        self.model.value = model

    def load(self) -> bytes:
        """Return the model."""
        return self.model.value  # type: ignore[no-any-return]


class NamedInstancesProgram(InstancesProgram):
    """The same with str ids."""

    instances = Partitioned(Instances(str), key="id")

    def add(self, id: str, target: float, features: bytes) -> None:  # type: ignore[override]
        """Set the instance of an id."""
        self.instances.add(id, target, features)

    def remove(self, id: str) -> bool:  # type: ignore[override]
        """Remove the instance of an id; return whether there was one."""
        return self.instances.discard(id)  # type: ignore[no-any-return]
