"""The parts into which edge files are divided, for tasks and threads to read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Split:
    """Bytes begin..end-1 of a text file, or row groups begin..end-1 of a Parquet file."""

    path: str
    begin: int
    end: int
    parquet: bool = False
