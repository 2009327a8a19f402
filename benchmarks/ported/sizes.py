"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every system.

    Attributes:
        scale: of R-MAT.
        programs: names of folders.
        repeats, budget: runs of each program; none is begun after so many seconds of them.
        memory: bytes for all processes of a system.
    """

    programs: tuple[str, ...]
    scale: int = 18
    repeats: int = 5
    budget: float = 30.0
    cores: int = 2
    memory: int = 8 << 30
