"""The rows of a source that are edges: those for which a condition of Arrow holds.

Arrow tells one missing column at a time, so the columns that a condition reads are found by giving
it one more until it can be evaluated. Cells of text get the first type with which it can be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vertexsdk.arrays.packed_strings import is_text
from vertexsdk.errors import InputError, first_line

_MISSING = re.compile(r"No match for FieldRef\.(Name\((.*?)\)|\S+) in ", re.DOTALL)
_OF_CELLS = (
    *(pa.large_string(), pa.int64(), pa.float64(), pa.bool_()),
    *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()),
)  # what cells of text are taken as
_NUMBER = "_row"

Fields = Mapping[str, pa.DataType]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the columns of edges; picklable.

    Attributes:
        expression: an Arrow expression.
        names: further names of columns, with the names that these have.
    """

    expression: pc.Expression
    names: tuple[tuple[str, str], ...] = ()
    _known: dict[Any, dict[str, pa.DataType]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, expression: Any) -> Condition:
        """Return the condition that a user gives.

        Raises:
            InputError: it is not an expression of Arrow.
        """
        if not isinstance(expression, pc.Expression):
            raise InputError(
                f"where takes a condition of pyarrow.compute, such as pc.field('value') > 1, not a "
                f"{type(expression).__name__}"
            )
        return cls(expression)

    def also(self, other: Condition | None) -> Condition:
        """Return the condition that rows fulfil which fulfil both."""
        if other is None:
            return self
        return Condition(other.expression & self.expression, other.names)

    def columns(self, fields: Fields, place: str, *, text: bool = False) -> dict[str, pa.DataType]:
        """Return the columns that it reads, with the types that they have to have.

        Args:
            fields: the types of the columns that there are.
            place: where they are, for messages.
            text: columns of strings are cells of a text.

        Raises:
            InputError: a column is not there, or the types do not fit.
        """
        key = (tuple(fields.items()), text)
        if key not in self._known:
            self._known[key] = self._columns(fields, place, text)
        return self._known[key]

    def _columns(self, fields: Fields, place: str, text: bool) -> dict[str, pa.DataType]:
        errors: list[Exception] = []

        def fitting(chosen: dict[str, pa.DataType]) -> dict[str, pa.DataType] | None:
            error = self._why_not(chosen)
            missing = None if error is None else _MISSING.match(str(error))
            if error is None:
                return chosen
            if missing is None:
                errors.append(error)
                return None
            name = missing[2]
            if name is None:
                raise InputError("where: name a column by pc.field('NAME'), not by its position")
            if name not in fields:
                raise InputError(
                    f"{place}: the condition reads column {name!r}; columns are {', '.join(fields)}"
                )
            field_type = fields[name]
            for kind in _OF_CELLS if text and is_text(field_type) else (field_type,):
                types = fitting({**chosen, name: kind})
                if types is not None:
                    return types
            return None

        types = fitting({})
        if types is None:
            raise InputError(
                f"{place}: the condition {self.expression} does not fit the columns "
                f"({first_line(errors[0])}); cast them, as by pc.field('NAME').cast('float64')"
            )
        return types

    def _why_not(self, kinds: Fields) -> Exception | None:
        """Why it cannot be evaluated on columns of these types."""
        try:
            pa.schema(kinds.items()).empty_table().filter(self.expression)
        except (pa.ArrowException, TypeError, ValueError) as error:
            return error
        return None

    def sources(
        self, schema: pa.Schema, roles: Mapping[str, str], place: str, *, text: bool = False
    ) -> list[str]:
        """Return the columns of a source that it reads; arguments and errors as of `rows`."""
        names = self._names(schema, roles)
        fields = {name: schema.field(old).type for name, old in names.items()}
        return [names[name] for name in self.columns(fields, place, text=text)]

    def _names(self, schema: pa.Schema, roles: Mapping[str, str]) -> dict[str, str]:
        """The column for each name that may be used."""
        present = {n: n for n in schema.names}
        return {
            **present,
            **{n: old for n, old in {**dict(self.names), **roles}.items() if n not in present},
        }

    def rows(
        self, batch: pa.RecordBatch, roles: Mapping[str, str], place: str, *, text: bool
    ) -> pa.RecordBatch:
        """Return the rows that fulfil it; arguments and errors as of `kept`."""
        numbers = self.kept(batch, roles, place, text=text)
        return batch if len(numbers) == len(batch) else batch.take(numbers)

    def kept(
        self, batch: pa.RecordBatch, roles: Mapping[str, str], place: str, *, text: bool = False
    ) -> pa.Array:
        """Return the numbers of the rows that fulfil it; those where it is null do not.

        Args:
            batch: rows.
            roles: the names of the columns `source`, `target` and `value`.
            place, text: as those of `columns`.

        Raises:
            InputError: as of `columns`; or a cell of text is not of the type that is asked for.
        """
        names = self._names(batch.schema, roles)
        fields = {name: batch.schema.field(old).type for name, old in names.items()}
        kinds = self.columns(fields, place, text=text)
        columns: dict[str, Any] = {}
        for name in kinds:
            column = batch.column(names[name])
            if text and is_text(column.type):
                column = self._of_cells(column, name, kinds, place)
            if names[name] == roles.get("value") and not is_text(column.type):
                column = pc.fill_null(column, 1)  # as an edge without a value has
            columns[name] = column
        table = pa.table({**columns, _NUMBER: np.arange(len(batch))})
        return table.filter(self.expression)[_NUMBER].combine_chunks()

    def _of_cells(self, cells: Any, name: str, kinds: Fields, place: str) -> Any:
        """Return cells of text as the type in `kinds`, or the next one that fits them."""
        kind = kinds[name]
        if is_text(kind):
            return cells
        for other in _OF_CELLS[_OF_CELLS.index(kind) :]:
            if other == kind or self._why_not({**kinds, name: other}) is None:
                try:
                    return pc.cast(cells, other)
                except pa.ArrowInvalid as error:
                    failed = error
        raise InputError(
            f"{place}, column {name}: the condition compares cells as {kind}, and one is not "
            f"({first_line(failed)})"
        ) from None
