"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        keys: different ones, drawn from 62 bits.
        calls: in bulk, of each kind and turn.
        turns: of each kind.
        single: calls one by one.
    """

    keys: int = 1_000_000
    calls: int = 1 << 20
    turns: int = 5
    single: int = 500
    cores: int = 2
