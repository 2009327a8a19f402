"""Vertex attributes: what state fields of the same name have before `init`.

They come as columns of any type that Arrow holds, and are converted to the types that a program
declares for its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import is_text
from vertexsdk.errors import InputError, excerpt, first_line
from vertexsdk.graph.topology.string_ids import StringIds
from vertexsdk.graph.vertex_file import UNUSABLE, VertexInput, last_rows
from vertexsdk.program.algebra import VertexId
from vertexsdk.program.fields import StateField
from vertexsdk.program.program import Program


@dataclass(frozen=True, slots=True)
class VertexAttributes:
    """Values of state columns before `init`.

    Attributes:
        columns: by the name of a state column: ids (int64[k], ascending; codes of string ids) and
            values ([k] or [k, size]). Other vertices have the field's default.
        changing: the first of these fields which a method sets; None where none does.
    """

    columns: Mapping[str, tuple[NDArray[np.int64], NDArray[Any]]]
    changing: str | None

    @classmethod
    def of(
        cls, vertices: VertexInput | None, names: StringIds | None, program: Program
    ) -> VertexAttributes | None:
        """Convert the attributes which a program has fields for; None where there are none.

        Args:
            vertices: their ids are all in `names`, if that is given.
            names: the names of string ids; None where ids are integers.

        Raises:
            InputError: a value is not of its field's type.
        """
        if vertices is None or vertices.attributes is None:
            return None
        table, ids = vertices.attributes, None
        columns: dict[str, tuple[NDArray[np.int64], NDArray[Any]]] = {}
        changing = None
        for kind, spec in enumerate(program.classes):
            for name in table.column_names:
                if name not in spec.states:
                    continue
                if ids is None:
                    ids, rows = last_rows(vertices, names)
                    classes = _classes(vertices, program)[rows]
                column = table[name].take(pa.array(rows)).combine_chunks()
                there = np.asarray(column.is_valid()) & (classes == kind)
                f, place = spec.states[name], f"{vertices.place}, column {name}"
                owner = f"{spec.name}.{name} is {_type_name(f)}; cast or rename the column"
                why = (table.schema.field(name).metadata or {}).get(UNUSABLE)
                if why is not None:
                    raise InputError(f"{place}: {why.decode()}, but {owner}")
                values = _values(column.filter(pa.array(there)), f, names, place, owner)
                inside = True if f.bounds is None else f.bounds.hold(values)
                if not np.all(inside):
                    first = values[~inside].flat[0]
                    raise InputError(f"{place}: {first:g} is not in {f.bounds}, as {name} must be")
                columns[program.column(kind, name)] = (ids[there], values)
                if name not in spec.facts.constants:
                    changing = changing or f"{spec.name}.{name}"
        return cls(columns, changing) if columns else None

    def with_codes(self, step: int, program: Program) -> VertexAttributes:
        """Return these for string ids whose codes are `(rank + 1) * step` instead of the rank."""
        fields = program.states()
        columns = {
            name: ((ids + 1) * step, (x + 1) * step if fields[name].type is VertexId else x)
            for name, (ids, x) in self.columns.items()
        }
        return VertexAttributes(columns, self.changing)

    def fill(self, states: Mapping[str, NDArray[Any]], ids: NDArray[np.int64]) -> None:
        """Write the values into the columns of the vertices `ids` (int64[n])."""
        for name, (known, values) in self.columns.items():
            at = np.searchsorted(known, ids)
            here = at < len(known)
            here[here] = known[at[here]] == ids[here]
            states[name][here] = values[at[here]]


def _classes(vertices: VertexInput, program: Program) -> NDArray[np.int64]:
    """The number of each row's class; the first where none is named."""
    if vertices.kinds is None or len(program.classes) == 1:
        return np.zeros(len(vertices.column), np.int64)
    known = pa.array([spec.name for spec in program.classes], pa.large_string())
    numbers = pc.index_in(pc.cast(vertices.kinds, pa.large_string()), known)
    return np.asarray(pc.fill_null(numbers, 0), np.int64)


def _type_name(f: StateField) -> str:
    name = getattr(f.type, "__name__", str(f.type))
    return name if f.size is None else f"{name}[{f.size}]"


def _values(
    column: pa.Array, f: StateField, names: StringIds | None, place: str, owner: str
) -> NDArray[Any]:
    """Convert a column without nulls to a field's type."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if f.size is not None:
        if not _is_list(column.type):
            raise InputError(f"{place}: {column.type}, but {owner}")
        lengths = np.asarray(pc.list_value_length(column))
        rows, column = len(column), column.flatten()
        if (lengths != f.size).any() or column.null_count:
            raise InputError(f"{place}: a list is not of {f.size} numbers, but {owner}")
        return _numbers(column, f, place, owner).reshape(rows, f.size)
    if f.type is VertexId and names is not None:
        ids = pc.cast(column, pa.large_string()).to_pylist()
        codes = names.find(ids)
        if (codes < 0).any():
            unknown = ids[int(np.argmax(codes < 0))]
            raise InputError(f"{place}: vertex {excerpt(unknown)} is not in the graph")
        return codes
    if f.dtype != object:
        return _numbers(column, f, place, owner)
    values = np.empty(len(column), object)
    for k, x in enumerate(column.to_pylist()):
        if isinstance(f.type, type) and not isinstance(x, f.type):
            raise InputError(f"{place}: {excerpt(x)}, but {owner}")
        values[k] = x
    return values


def _numbers(column: pa.Array, f: StateField, place: str, owner: str) -> NDArray[Any]:
    kind, t = column.type, pa.types
    number = t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)
    if not (
        is_text(kind) or t.is_null(kind) or (t.is_boolean(kind) if f.dtype.kind == "b" else number)
    ):
        raise InputError(f"{place}: {kind}, but {owner}")
    wanted = {"f": pa.float64(), "i": pa.int64(), "b": pa.bool_()}[f.dtype.kind]
    try:
        numbers = pc.cast(column, wanted, safe=f.dtype.kind != "f")
    except pa.ArrowInvalid as error:
        raise InputError(f"{place}: {first_line(error)}, but {owner}") from None
    values: NDArray[Any] = numbers.to_numpy(zero_copy_only=False)
    return values.astype(f.dtype)


def _is_list(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))
