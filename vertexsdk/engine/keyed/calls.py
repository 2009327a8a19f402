"""Blocks of calls: the arguments of many calls of one or several methods, as columns, in order.

The column of parameter p of method m is called "m.p", both by their place in the class; strings are
packed, and bytes too, as "m.p.binary". So a block goes as it is to processors and to the log of a
loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.arrays.hash_index import Packed
from vertexsdk.arrays.id_hash import groups_of_hashes, hash_partition, owner_of_groups
from vertexsdk.arrays.packed_strings import (
    HashedStrings,
    PackedBytes,
    join_strings,
    pack_bytes,
    pack_strings,
    take_strings,
    unpack_bytes,
    unpack_strings,
)
from vertexsdk.program.keyed import DTYPES, KeyedProgram
from vertexsdk.state.reading import name_groups
from vertexsdk.state.stored_columns import Described, described_text

Values: TypeAlias = "NDArray[Any] | Packed"  # of one parameter


def stored_values(kind: str, values: Iterable[Any]) -> Values:
    """Return Python values of a type as a column.

    >>> stored_values("int", [1, 2])
    array([1, 2])
    """
    if kind == "str":
        return pack_strings(values)
    if kind == "bytes":
        return pack_bytes(values)
    return np.array(list(values), DTYPES[kind])


def python_values(values: Values) -> list[Any]:
    """Return a column as Python values.

    >>> python_values(stored_values("str", ["be"]))
    ['be']
    """
    if isinstance(values, PackedBytes):
        return unpack_bytes(*values)
    return unpack_strings(*values) if isinstance(values, tuple) else values.tolist()


def number_of_values(values: Values) -> int:
    """Return the length of a column.

    >>> number_of_values(stored_values("str", ["be"]))
    1
    """
    return len(values[0]) - 1 if isinstance(values, tuple) else len(values)


def take_values(values: Values, rows: NDArray[np.int64]) -> Values:
    """Return some rows of a column.

    >>> take_values(np.array([5, 6]), np.array([1]))
    array([6])
    """
    if isinstance(values, tuple):
        return _of_kind(values, take_strings(*values, rows))
    return values[rows]


def one_value(values: Values, place: int) -> Values:
    """Return one row of a column, without copying it.

    >>> one_value(np.array([5, 6]), 1)
    array([6])
    """
    if isinstance(values, tuple):
        return values[0][place : place + 2], values[1]
    return values[place : place + 1]


def join_values(parts: Sequence[Values]) -> Values:
    """Return the rows of several columns of one type, one after the other.

    >>> join_values([np.array([1]), np.array([2])])
    array([1, 2])
    """
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], tuple):
        return _of_kind(parts[0], join_strings([x for x in parts if isinstance(x, tuple)]))
    return np.concatenate([part for part in parts if not isinstance(part, tuple)])


def _of_kind(values: Packed, packed: Packed) -> Packed:
    """Return packed values as what they are taken from: bytes, or strings."""
    return PackedBytes(*packed) if isinstance(values, PackedBytes) else packed


def owners_of_keys(keys: Values, partitions: int) -> NDArray[np.int32]:
    """Return the partition (int32[n]) that owns the key group of each key.

    >>> owners_of_keys(np.array([0, 1]), 1)
    array([0, 0], dtype=int32)
    """
    if isinstance(keys, HashedStrings):
        return owner_of_groups(groups_of_hashes(keys.hashes), partitions)
    if isinstance(keys, tuple):
        return owner_of_groups(name_groups(*keys), partitions)
    return hash_partition(keys, partitions)


@dataclass(frozen=True)
class Calls:
    """Calls in order.

    Attributes:
        methods: uint8[n], the method of each call, by its place in the class.
        arguments: by (method, parameter): the column of its calls' arguments.

    Example:
        >>> calls = Calls(np.zeros(2, np.uint8), {(0, 0): np.array([7, 8])})
        >>> len(calls), list(calls.columns())
        (2, ['method', '0.0'])
    """

    methods: NDArray[np.uint8]
    arguments: Mapping[tuple[int, int], Values]

    def __len__(self) -> int:
        return len(self.methods)

    @classmethod
    def of(cls, program: KeyedProgram, calls: Sequence[tuple[int, Sequence[Any]]]) -> Calls:
        """Return calls given one by one.

        Args:
            calls: the place of each one's method, and its arguments, of the right types.
        """
        specs = list(program.methods.values())
        by_method: dict[int, list[Sequence[Any]]] = {}
        for m, values in calls:
            by_method.setdefault(m, []).append(values)
        arguments = {
            (m, p): stored_values(parameter.kind, [values[p] for values in rows])
            for m, rows in by_method.items()
            for p, parameter in enumerate(specs[m].parameters)
        }
        return cls(np.array([m for m, _ in calls], np.uint8), arguments)

    def writers(self, program: KeyedProgram) -> Calls:
        """Return the calls that may change state, which a log has to have."""
        specs = list(program.methods.values())
        writes = np.array([spec.writes for spec in specs], np.bool_)
        chosen = writes[self.methods]
        if chosen.all():
            return self
        arguments = {at: values for at, values in self.arguments.items() if writes[at[0]]}
        return Calls(self.methods[chosen], arguments)

    def first(self, count: int) -> Calls:
        """Return the first calls."""
        methods = self.methods[:count]
        counts = np.bincount(methods, minlength=256)
        arguments = {
            at: take_values(values, np.arange(counts[at[0]]))
            for at, values in self.arguments.items()
        }
        return Calls(methods, arguments)

    @staticmethod
    def join(parts: Sequence[Calls]) -> Calls:
        """Return the calls of several blocks, one after the other."""
        places = dict.fromkeys(at for part in parts for at in part.arguments)
        arguments = {
            at: join_values([part.arguments[at] for part in parts if at in part.arguments])
            for at in places
        }
        return Calls(np.concatenate([part.methods for part in parts]), arguments)

    def columns(self) -> dict[str, Column]:
        """Return the block as named columns."""
        columns: dict[str, Column] = {"method": self.methods}
        for (m, p), values in self.arguments.items():
            if isinstance(values, tuple):
                name = f"{m}.{p}{'.binary' * isinstance(values, PackedBytes)}"
                columns[f"{name}.offsets"], columns[f"{name}.bytes"] = values
            else:
                columns[f"{m}.{p}"] = values
        return columns

    @classmethod
    def from_columns(cls, columns: Mapping[str, Column]) -> Calls:
        """Return the block that `columns` returned the columns of."""
        arguments: dict[tuple[int, int], Values] = {}
        for name, values in columns.items():
            m, _, rest = name.partition(".")
            p, _, part = rest.partition(".")
            if part == "offsets":
                arguments[int(m), int(p)] = values, columns[f"{m}.{p}.bytes"]
            elif part == "binary.offsets":
                data = columns[f"{m}.{p}.binary.bytes"]
                arguments[int(m), int(p)] = PackedBytes(values, data)
            elif m.isdigit() and not part:
                arguments[int(m), int(p)] = values
        return cls(columns["method"], arguments)

    @staticmethod
    def described(program: KeyedProgram) -> dict[str, Described]:
        """Return the columns that a stored block may have."""
        columns = {"method": Described(np.uint8, rows="call", most=len(program.methods) - 1)}
        for m, spec in enumerate(program.methods.values()):
            for p, parameter in enumerate(spec.parameters):
                name = f"{m}.{p}"
                if parameter.kind in ("str", "bytes"):
                    name += ".binary" * (parameter.kind == "bytes")
                    columns |= described_text(name, f"calls of {m}", required=False)
                else:
                    columns[name] = Described(
                        DTYPES[parameter.kind], rows=f"calls of {m}", required=False
                    )
        return columns

    def check(self, program: KeyedProgram) -> None:
        """Refuse a stored block that has not an argument for each parameter of each call.

        Raises:
            CorruptError: it has not.
        """
        counts = np.bincount(self.methods, minlength=len(program.methods))
        for m, spec in enumerate(program.methods.values()):
            for p in range(len(spec.parameters)) if counts[m] else ():
                values = self.arguments.get((m, p))
                length = 0 if values is None else number_of_values(values)
                if length != counts[m]:
                    raise CorruptError(f"{counts[m]} calls of {spec.name} have {length} arguments")

    def owners(self, program: KeyedProgram, partitions: int) -> NDArray[np.int32]:
        """Return the partition (int32[n]) that begins each call.

        It is the owner of the key, where a parameter has that; else they take turns.
        """
        owners = (np.arange(len(self)) % partitions).astype(np.int32)
        for m, spec in enumerate(program.methods.values()):
            if spec.key_place >= 0 and (m, spec.key_place) in self.arguments:
                keys = self.arguments[m, spec.key_place]
                owners[self.methods == m] = owners_of_keys(keys, partitions)
        return owners
