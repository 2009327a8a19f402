"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        points: instances of logistic regression.
        passes: of SGD over them, whose points per second are noted.
        most: passes until a system is said not to come within 1 % of the best loss.
        instances: that are there after the last ones have arrived.
        shares: percent more that arrive before an answer.
        stream: instances by which rates of descent are compared.
        columns: of the bags of words among these.
        batches: in which they arrive.
        turns: of what is timed more than once.
        cores: of MLlib's session, where ours has one.
    """

    points: int = 1_000_000
    passes: int = 10
    most: int = 50
    instances: int = 300_000
    shares: tuple[int, ...] = (1, 5, 10, 20)
    stream: int = 100_000
    columns: int = 141_000
    batches: int = 20
    turns: int = 3
    cores: int = 2
