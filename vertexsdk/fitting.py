"""Changes as they are given, made to fit a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from vertexsdk.changes import Changes
from vertexsdk.deltas import Deltas
from vertexsdk.engine import Engine
from vertexsdk.errors import InputError

__all__ = ["fitting"]


def fitting(changes: Changes | DataFrame | Iterable[Sequence[Any]], engine: Engine) -> Changes:
    """Return the changes with ids and values of the engine's types.

    Raises:
        InputError: changes of another form, or string ids where the graph's are integers.
    """
    if isinstance(changes, DataFrame):
        changes = Changes.from_dataframe(changes)
    if changes is None or not isinstance(changes, (Changes, Iterable)):
        raise InputError(
            f"{type(changes).__name__} is no batch of changes; give Changes, a DataFrame with "
            "columns kind,source,target[,value], or ('+', source, target[, value]) tuples"
        )
    batch = changes if isinstance(changes, Changes) else Deltas.mixed(changes)
    if not len(batch):
        return batch
    source, target = batch.source, batch.target
    if engine.integers and len(batch.kind) and not batch.are_integers:
        raise InputError("the graph's ids are integers; so must be those of its changes")
    if not engine.integers:
        source, target = batch.strings()
    value = batch.value.astype(engine.value or "float64", copy=False)
    fitted = Changes(batch.kind, source, target, value, batch.places)
    if not isinstance(batch, Deltas) or not batch.sent:
        return fitted
    return Deltas.among(fitted).sending(batch.sent, integers=engine.integers)
