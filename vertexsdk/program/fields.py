"""The state fields of vertices: how a class declares them, and where a store has them.

The store keeps a column per field of every class, for all vertices of a partition; the schema of a
program of several classes says whose each column is. Readers show a vertex its own class's only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vertexsdk.errors import InputError
from vertexsdk.program.algebra import dtype_of
from vertexsdk.program.vertex import Bounds


@dataclass(frozen=True, slots=True)
class StateField:
    """A typed state column.

    Attributes:
        name: the field's name.
        type: the annotated type: int, float, bool, `VertexId`, or any class.
        size: the length of a vector; None for a single value.
        default: the value of a vertex before `init`.
        bounds: the numbers that a vertex attribute of this name may have.
    """

    name: str
    type: Any
    size: int | None
    default: Any
    bounds: Bounds | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of one element."""
        return dtype_of(self.type)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one vertex's value: () or (size,)."""
        return () if self.size is None else (self.size,)

    @property
    def column_dtype(self) -> np.dtype[Any]:
        """NumPy type of one vertex's value; a column of n vertices is (n,), or (n, size)."""
        return np.dtype((self.dtype, self.shape))


@dataclass
class VertexClass:
    """The fields of one class: field name to the name of the column it is stored in."""

    name: str
    columns: dict[str, str] = field(default_factory=dict)
    result: str = ""


_NUMBERS = ("int", "float", "bool", "VertexId")
NO_FIELDS = VertexClass("")  # a class that keeps no state


class Fields:
    """The fields of all classes of a loop, as its schema has them.

    Args:
        loop: the loop's name, for messages.
        schema: as from `Program.schema`, or a manifest.
        result: the column that is written as `value`.

    Attributes:
        classes: by the number that the column `kind` has for them.
    """

    def __init__(self, loop: str, schema: Mapping[str, Any], result: str) -> None:
        self.loop, self._schema = loop, schema
        self.classes: dict[int, VertexClass] = {}
        for column, entry in schema.items():
            new = (
                VertexClass(entry["class"]) if "class" in entry else VertexClass("", result=result)
            )
            owner = self.classes.setdefault(entry.get("kind", 0), new)
            name = entry.get("field", column)
            owner.columns[name] = column
            if entry.get("result"):
                owner.result = name

    @property
    def several(self) -> bool:
        """True if vertices are of more than one class."""
        return len(self.classes) > 1

    @property
    def objects(self) -> frozenset[str]:
        """The columns that may hold Python objects: of all types but numbers."""
        return frozenset(n for n, e in self._schema.items() if e.get("type") not in _NUMBERS)

    @property
    def names(self) -> list[str]:
        """Every field's name, once."""
        return list(dict.fromkeys(name for c in self.classes.values() for name in c.columns))

    def table(self) -> dict[str, dict[int, str]]:
        """Return the columns of a table of all vertices, each as stored column by class number.

        Classes share the column of a name; where their types differ each has its own,
        `Class.field`.
        """
        columns: dict[str, dict[int, str]] = {}
        for name in self.names:
            stored = self._stored(name)
            if len({self._type(column) for column in stored.values()}) == 1:
                columns[name] = stored
            else:
                for kind, column in stored.items():
                    columns[f"{self.classes[kind].name}.{name}"] = {kind: column}
        return columns

    def find(self, name: str | None) -> dict[int, str]:
        """Return where a field is stored, by class number.

        Args:
            name: `field`, or `Class.field` for one class only; None for each class's result.

        Raises:
            InputError: no such field.
        """
        if name is None:
            results = {
                k: c.columns[c.result] for k, c in self.classes.items() if c.result in c.columns
            }
            if not results:
                raise InputError(f"{self.loop} has no state field to write; declare one: state()")
            return results
        stored = self._stored(name)
        class_name, dot, field_name = name.rpartition(".")
        if dot:
            stored = {
                kind: c.columns[field_name]
                for kind, c in self.classes.items()
                if c.name == class_name and field_name in c.columns
            }
        if not stored:
            known = ", ".join(self.names) or "none"
            raise InputError(f"no field {name!r}; {self.loop} has: {known}")
        return stored

    def shown(self, name: str | None) -> dict[int, dict[str, str]]:
        """Return the columns of a vertex's row, by class number: field name to stored column.

        Args:
            name: the only field to show; None shows all.

        Raises:
            InputError: no such field.
        """
        if name is None:
            return {kind: c.columns for kind, c in self.classes.items()}
        return {kind: {name: column} for kind, column in self.find(name).items()}

    def _stored(self, name: str) -> dict[int, str]:
        return {k: c.columns[name] for k, c in self.classes.items() if name in c.columns}

    def _type(self, column: str) -> tuple[Any, Any]:
        entry = self._schema[column]
        return entry.get("type"), entry.get("size")
