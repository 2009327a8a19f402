"""Which fields a vertex has: those of its own class, where a program has several.

The store keeps a column per field of every class, for all vertices of a partition; the schema of a
program of several classes says whose each column is. Readers show a vertex its own class's only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vertexsdk.errors import InputError

__all__ = ["NO_FIELDS", "Fields", "VertexClass"]


@dataclass
class VertexClass:
    """The fields of one class: field name to the name of the column it is stored in."""

    name: str
    columns: dict[str, str] = field(default_factory=dict)
    result: str = ""


_NUMBERS = ("int", "float", "bool", "VertexId")
NO_FIELDS = VertexClass("")  # a class that keeps no state


class Fields:
    """The fields of all classes of a loop, read off its schema.

    Attributes:
        classes: by the number that the column `kind` has for them.
    """

    def __init__(self, loop: str, schema: Mapping[str, Any], result: str) -> None:
        self.loop, self._schema = loop, schema
        self.classes: dict[int, VertexClass] = {}
        for column, said in schema.items():
            new = VertexClass(said["class"]) if "class" in said else VertexClass("", result=result)
            of = self.classes.setdefault(said.get("kind", 0), new)
            name = said.get("field", column)
            of.columns[name] = column
            if said.get("result"):
                of.result = name

    @property
    def several(self) -> bool:
        """Whether vertices are of more than one class."""
        return len(self.classes) > 1

    @property
    def objects(self) -> frozenset[str]:
        """The columns which may hold Python objects: of all types but numbers."""
        return frozenset(n for n, said in self._schema.items() if said.get("type") not in _NUMBERS)

    @property
    def names(self) -> list[str]:
        """Every field's name, once."""
        return list(dict.fromkeys(name for c in self.classes.values() for name in c.columns))

    def table(self) -> dict[str, dict[int, str]]:
        """The columns of a table of all vertices: for each class that has it, where it is stored.

        Classes share the column of a name; where their types differ each has its own,
        `Class.field`.
        """
        found: dict[str, dict[int, str]] = {}
        for name in self.names:
            where = self._where(name)
            if len({self._type(column) for column in where.values()}) == 1:
                found[name] = where
            else:
                for kind, column in where.items():
                    found[f"{self.classes[kind].name}.{name}"] = {kind: column}
        return found

    def find(self, name: str | None) -> dict[int, str]:
        """Where a field is stored, by class number: `field`, or `Class.field` for one class only.

        Without a name it is each class's result.

        Raises:
            InputError: there is no such field.
        """
        if name is None:
            results = {
                k: c.columns[c.result] for k, c in self.classes.items() if c.result in c.columns
            }
            if not results:
                raise InputError(f"{self.loop} has no state field to write; declare one: state()")
            return results
        found = self._where(name)
        of, dot, own = name.rpartition(".")
        if dot:
            found = {
                kind: c.columns[own]
                for kind, c in self.classes.items()
                if c.name == of and own in c.columns
            }
        if not found:
            known = ", ".join(self.names) or "none"
            raise InputError(f"no field {name!r}; {self.loop} has: {known}")
        return found

    def shown(self, name: str | None) -> dict[int, dict[str, str]]:
        """What a vertex's row has, by class number: field name to stored column, all or one.

        Raises:
            InputError: there is no such field.
        """
        if name is None:
            return {kind: c.columns for kind, c in self.classes.items()}
        return {kind: {name: column} for kind, column in self.find(name).items()}

    def _where(self, name: str) -> dict[int, str]:
        return {k: c.columns[name] for k, c in self.classes.items() if name in c.columns}

    def _type(self, column: str) -> tuple[Any, Any]:
        said = self._schema[column]
        return said.get("type"), said.get("size")
