"""Comparison ratios beside stored ones, and whether any is beyond its margin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.document import grid

FACTOR = 3.0
"""How many times the stored ratio the found one may be, where a line says nothing else."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line as measured: the least seconds of ours and of its peer, or why there are none."""

    title: str
    peer: str
    seconds: list[float] = field(default_factory=list)
    problem: str | None = None

    @property
    def ratio(self) -> float:
        """How many times the peer's."""
        ours, theirs = self.seconds
        return ours / theirs


@dataclass(frozen=True, slots=True)
class Stored:
    """What a line came to when it was stored, and its margin."""

    ratio: float
    factor: float = FACTOR


def read(path: Path) -> dict[str, Stored]:
    """The stored lines by title.

    Raises:
        ValueError: the file is none of the guard's.
    """
    try:
        lines = json.loads(path.read_text())["lines"]
        found = {title: Stored(float(s["ratio"]), float(s["factor"])) for title, s in lines.items()}
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: no stored ratios ({type(error).__name__}: {error})") from None
    bad = [title for title, each in found.items() if not (each.ratio > 0 and each.factor >= 1)]
    if bad:
        raise ValueError(f"{path}: {bad[0]}: a ratio is above 0, and a factor at least 1")
    return found


def stored_as(
    found: list[Comparison], before: Mapping[str, Stored], machine: Mapping[str, Any]
) -> dict[str, Any]:
    """What to write for the next time; a margin that was set for a line stays."""
    lines = {
        each.title: {
            "ratio": float(f"{each.ratio:.3g}"),
            "factor": before[each.title].factor if each.title in before else FACTOR,
        }
        for each in found
    }
    return {
        "stored": machine["date"],
        "machine": f"{machine['processor']}, {machine['cores']} cores",
        "revision": machine["revision"],
        "lines": lines,
    }


def better(first: list[Comparison], second: list[Comparison]) -> list[Comparison]:
    """Of each line the measurement with the smaller ratio; one that has none stays as it was."""
    again = {each.title: each for each in second if not each.problem}
    found = []
    for each in first:
        other = again.pop(each.title, None)
        worse = other is not None and not each.problem and other.ratio < each.ratio
        found.append(other if other is not None and worse else each)
    return [*found, *again.values()]


def failed(found: list[Comparison], stored: Mapping[str, Stored]) -> list[str]:
    """Why the check fails: a line beyond its margin, without a figure, or not there any more."""
    missing = set(stored) - {each.title for each in found}
    reasons = [f"{title}: stored, but not measured" for title in sorted(missing)]
    for each in found:
        if each.problem:
            reasons.append(f"{each.title}: {each.problem}")
        elif each.title in stored and each.ratio > stored[each.title].ratio * _factor(each, stored):
            times = each.ratio / stored[each.title].ratio
            reasons.append(f"{each.title}: {times:.1f} times the stored ratio")
    return reasons


def _factor(each: Comparison, stored: Mapping[str, Stored]) -> float:
    return stored[each.title].factor


def compared(found: list[Comparison], stored: Mapping[str, Stored]) -> str:
    """All lines as a table in Markdown."""
    rows = [["", "peer", "ours, s", "peer, s", "ratio", "stored", "at most", ""]]
    for each in found:
        if each.problem:
            rows.append([each.title, each.peer, "–", "–", "–", "–", "–", f"**{each.problem}**"])
            continue
        row = [each.title, each.peer]
        row += [f"{number:.3g}" for number in (*each.seconds, each.ratio)]
        known = stored.get(each.title)
        if known is None:
            rows.append([*row, "–", "–", "not stored yet"])
            continue
        most = known.ratio * known.factor
        verdict = "good" if each.ratio <= most else "**beyond its margin**"
        if each.ratio * known.factor < known.ratio:
            verdict = "better by more than its margin: store it"
        rows.append([*row, f"{known.ratio:.3g}", f"{most:.3g}", verdict])
    return grid(rows)
