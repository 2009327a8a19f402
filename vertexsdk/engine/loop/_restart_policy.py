"""Whether a sum begins with `init` again, because from the answer before it would take longer.

Both are exact. After few changes the answer before is close; after many, what it is wrong by may
fade more slowly than what `init` is wrong by. So it is remembered how many iterations `init` took,
and after how many changes the answer before took fewer, or more.
"""

from __future__ import annotations

from typing import Any

_FEW = 1 << 10  # changes after which the answer before is taken to be close


class RestartPolicy:
    """Counts changes and iterations since the loop was last at its fixed point.

    Args:
        meta: where the counts are kept.

    >>> pace = RestartPolicy({})
    >>> pace.quiet(from_init=True, iterations=10)
    >>> pace.changed(50_000)
    >>> pace.slower, pace.tired(10), pace.tired(1)
    (False, False, True)
    >>> pace.quiet(from_init=True, iterations=10)
    >>> pace.changed(40_000)
    >>> pace.slower
    True
    >>> pace.reason[:20]
    '40,000 changes came,'
    """

    def __init__(self, meta: dict[str, Any]) -> None:
        self._meta = meta
        for name, value in (("since", 0), ("spent", 0), ("good", _FEW)):
            meta.setdefault(name, value)
        for name in ("from init", "bad"):
            meta.setdefault(name, None)

    def changed(self, changes: int) -> None:
        """So many changes were taken in."""
        self._meta["since"] += changes

    @property
    def slower(self) -> bool:
        """Whether it is better to begin with `init` now."""
        meta = self._meta
        if meta["spent"] or meta["bad"] is None:
            return False
        limit: float = (meta["good"] * meta["bad"]) ** 0.5
        return bool(meta["since"] > limit)

    @property
    def reason(self) -> str:
        """Why the loop begins with `init`; asked where `slower` or `tired` is true."""
        meta = self._meta
        if meta["spent"]:
            return (
                f"going on from the answer before took more than the {meta['from init']} "
                "iterations that init takes"
            )
        return (
            f"{meta['since']:,} changes came, and after {meta['bad']:,} of them going on from the "
            "answer before took more iterations than init"
        )

    def tired(self, iterations: int) -> bool:
        """Count iterations from the answer before; whether they are more than from `init`."""
        meta = self._meta
        meta["spent"] += iterations
        if meta["from init"] is None or meta["spent"] <= meta["from init"]:
            return False
        bad = meta["bad"]
        meta["bad"] = meta["since"] if bad is None else min(bad, meta["since"])
        meta["good"] = min(meta["good"], meta["bad"])
        return True

    def quiet(self, *, from_init: bool, iterations: int) -> None:
        """The loop is at its fixed point, after so many iterations since `init`, or in this job."""
        meta = self._meta
        if from_init:
            meta["from init"] = iterations
        else:
            meta["good"] = max(meta["good"], meta["since"])
        meta["since"] = meta["spent"] = 0
