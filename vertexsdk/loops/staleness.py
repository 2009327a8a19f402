"""How far what is read of a main loop may be from exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vertexsdk.errors import InputError

if TYPE_CHECKING:
    from vertexsdk.loops.result import Result

__all__ = ["staleness"]


def staleness(result: Result) -> str | None:
    """A line on a version of a main loop or of a fork of one; None for other loops.

    Raises:
        InputError: it has no state yet.

    >>> staleness(read(url, "pagerank"))  # doctest: +SKIP
    'pagerank: version 12 after 3,000 changes, 1,000 of them not reflected yet, residual 0.002'
    """
    if "main" not in result.manifest.statistics:
        return None
    from vertexsdk.loops._ledger import Ledger

    ledger = Ledger.of(result.manifest)
    assert ledger is not None
    if not ledger.state:
        raise InputError(
            f"loop {result.loop!r} has no answer yet at version {result.iteration}, after "
            f"{ledger.received:,} changes: wait for its first query"
        )
    said = f"{result.loop}: version {result.iteration} after {ledger.received:,} changes, "
    if ledger.exact:
        return said + "exact"
    said += f"{ledger.behind:,} of them not reflected yet"
    return said if ledger.residual is None else f"{said}, residual {ledger.residual:g}"
