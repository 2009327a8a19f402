"""The form of every "why not": a table of rules over a program's facts."""

from __future__ import annotations


def first_reason(*rules: tuple[object, str]) -> str | None:
    """Return the reason of the first rule that applies; None if none does.

    Args:
        rules: pairs of whether the rule applies, by its truth, and the reason in words.

    >>> first_reason((0 > 1, "numbers are upside down"), ("id", "it is called id"))
    'it is called id'
    """
    return next((reason for applies, reason in rules if applies), None)
