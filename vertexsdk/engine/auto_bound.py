"""`delay_bound="auto"`: which bound to run with, by algebra, partitions and their border."""

from __future__ import annotations

from dataclasses import dataclass

BORDER = 0.25  # share of vertices with a consumer elsewhere, above which little work is local
LOCAL = 1024  # iterations that a partition may be ahead: more than it makes before it is quiet
BLOCK = 4  # sweeps per exchange of all; of more than these the last ones add little


@dataclass(frozen=True, slots=True)
class BoundChoice:
    """A delay bound, whether sweeps are patient (`sweeps`), and why it was chosen."""

    bound: int
    patient: bool
    reason: str


def choose(partitions: int, border: float, blocks: bool, refused: str | None) -> BoundChoice:
    """Choose a bound.

    Args:
        partitions: number of partitions of the graph.
        border: the share of vertices with a consumer in another partition.
        blocks: whether the program reads aggregates, or ends by a rule over them.
        refused: why the program has to be synchronous, or None.

    >>> choose(4, 0.02, False, None).bound
    1024
    >>> choose(4, 0.9, False, None)
    BoundChoice(bound=1, patient=False, reason='90 % of the vertices have a consumer elsewhere')
    """
    if refused is not None:
        return BoundChoice(1, False, refused)
    if partitions == 1:
        return BoundChoice(1, False, "there is one partition")
    share = f"{border:.0%}".replace("%", " %")
    if border > BORDER:
        return BoundChoice(1, False, f"{share} of the vertices have a consumer elsewhere")
    bound = BLOCK if blocks else LOCAL
    return BoundChoice(bound, False, f"only {share} of the vertices have a consumer elsewhere")


def as_given(partitions: int, border: float, bound: int) -> BoundChoice:
    """Return the bound that the user gives; `partitions` and `border` are as for `choose`.

    Where most vertices have a consumer elsewhere, sweeps are patient: PREPAREs would be as many as
    the edges between partitions.

    >>> as_given(4, 0.9, 256)
    BoundChoice(bound=256, patient=True, reason='as given')
    """
    if partitions == 1:
        return BoundChoice(1, False, "there is one partition")
    return BoundChoice(bound, border > BORDER, "as given")
