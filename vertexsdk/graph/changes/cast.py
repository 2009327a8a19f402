"""Cast changes to the id type and value type of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError, excerpt
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.deltas import INTEGER_IDS, Deltas
from vertexsdk.graph.changes.table import unfit_values
from vertexsdk.graph.load.tables import is_table
from vertexsdk.graph.topology.edge_attributes import (
    NO_FLOAT,
    NO_INT,
    attribute_types,
    is_left_out,
    pack_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def cast_changes(
    changes: Changes | DataFrame | Iterable[Sequence[Any]],
    *,
    integers: bool,
    value: str | None,
    undirected: bool,
    time: str | None = None,
) -> Changes:
    """Return changes with the id type, value type and edge direction of a graph.

    Engines, logs, branches and merges rely on the form that this returns: an edge of an undirected
    graph is named in one direction only (`Changes.canonical`).

    Args:
        changes: a batch, a DataFrame or table, or rows as `Changes.of` takes them.
        integers: the graph's ids are int64; else they are strings.
        value: dtype of the edge values that the program reads, or None.
        undirected: edges have no direction.
        time: the column of a DataFrame with the times.

    Raises:
        InputError: changes of another form, string ids where the graph's are integers, or a value
            which the dtype cannot hold.
    """
    if is_table(changes):
        changes = Changes.from_dataframe(changes, value, time)
    if changes is None or not isinstance(changes, (Changes, Iterable)):
        raise InputError(
            f"{type(changes).__name__} is not a batch of changes; give Changes, a DataFrame or "
            "Arrow table with columns kind,source,target[,value], or ('+', source, target[, "
            "value]) tuples"
        )
    batch = changes if isinstance(changes, Changes) else Deltas.mixed(changes)
    if not len(batch):
        return batch
    source, target = batch.source, batch.target
    if integers and len(batch.kind) and not batch.are_integers:
        raise InputError(INTEGER_IDS)
    if not integers:
        source, target = batch.strings()
    values = _values(batch.value, value)
    fitted = Changes(batch.kind, source, target, values, batch.places, batch.time)
    fitted = fitted.canonical() if undirected else fitted
    if not isinstance(batch, Deltas) or not batch.sent:
        return fitted
    return Deltas.of_changes(fitted).sending(batch.sent, integers=integers)


def _values(value: NDArray[Any], dtype: str | None) -> NDArray[Any]:
    """The values in the program's dtype; ones where it reads none."""
    if dtype is None:
        return np.ones(len(value))
    if attribute_types(dtype):
        if value.ndim == 2:
            return value
        given = value[:0] if value.dtype == object else value[~is_left_out(value)]
        if len(given):
            raise InputError(
                f"a change has the single value {given[0]}; edges have the attributes "
                f"{', '.join(attribute_types(dtype))}: give a dict of them"
            )
        return pack_rows([None] * len(value) if value.dtype != object else value.tolist(), dtype)
    if value.dtype == object:
        first = next(x for x in value if x is not None)
        raise InputError(f"{excerpt(first)}: the program reads one value per edge; give a number")
    if value.dtype == dtype:
        return value
    none = is_left_out(value)
    unfit = np.flatnonzero(unfit_values(value, np.dtype(dtype)) & ~none)
    if len(unfit):
        raise InputError(
            f"the value {value[unfit[0]]} of change {unfit[0] + 1}: the program reads "
            f"{dtype} edge values; give whole numbers that it can hold"
        )
    cast = np.where(none, 0, value).astype(dtype)
    cast[none] = NO_INT if dtype == "int64" else NO_FLOAT
    return cast
