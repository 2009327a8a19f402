"""Which results the page shows: of every stem the newest that has a document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.document import Chart, Document, opened

__all__ = ["Found", "newest"]

_FACTS = (
    "date", "processor", "cores", "memory", "system", "python", "versions", "revision",
    "load_average",
)  # fmt: skip
_SCALE = re.compile(r"-r-mat-(\d+)$")
_DATED = re.compile(r"(.+)-\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Found:
    """A document, the file it is from, and the stem of that file: its name without the date."""

    stem: str
    path: Path
    document: Document

    @property
    def label(self) -> str:
        """What tells it from the suite's others: the stem without the suite, or nothing."""
        suite = self.document.suite
        rest = self.stem.removeprefix(suite).strip("-")
        return rest.replace("r-mat-", "R-MAT ").replace("-to-", " to ")


def newest(folder: Path, say: Callable[[str], None]) -> list[Found]:
    """The newest of every stem, by suite and stem; ``say`` hears of files which cannot be read."""
    best: dict[str, tuple[tuple[str, str], Found]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            plain = json.loads(path.read_text())
            if not isinstance(plain, dict) or "document" not in plain:
                continue
            document = opened(plain["document"])
            _look(document)
            when = str(document.machine["date"]), path.name
        except (OSError, ValueError, TypeError, KeyError) as error:
            say(f"{path.name}: left out, not a result: {type(error).__name__}: {error}")
            continue
        dated = _DATED.fullmatch(path.stem)
        stem = dated.group(1) if dated else path.stem
        if stem not in best or best[stem][0] < when:
            best[stem] = when, Found(stem, path, document)
    found = [one for _, one in best.values()]
    return sorted(found, key=lambda f: (rank(f.document.suite), f.document.suite, *_order(f.stem)))


def _order(stem: str) -> tuple[object, ...]:
    """Within a suite R-MAT from large to small, as ours is judged on a large one; then the rest."""
    scale = _SCALE.search(stem)
    return (0, -int(scale.group(1)), stem) if scale else (1, 0, _natural(stem))


def _look(document: Document) -> None:
    """Raises ValueError or KeyError for what could not be shown."""
    for name in _FACTS:
        document.machine[name]
    for section in document.sections:
        for part in section.parts:
            if isinstance(part, Chart):
                long = {len(s.values) for s in part.series} | {len(part.x)} - {0}
                if long - {len(part.categories)}:
                    raise ValueError(f"{part.title}: not as many values as categories")


ORDER = ("batch", "evolving", "state", "asynchrony", "scaling", "examples", "profile", "soak")


def rank(suite: str) -> int:
    """Where a suite stands on the page; those that it does not know come last."""
    return ORDER.index(suite) if suite in ORDER else len(ORDER)


def _natural(stem: str) -> list[tuple[int, str]]:
    """A key by which r-mat-9 comes before r-mat-20."""
    return [(int(w), "") if w.isdigit() else (-1, w) for w in re.split(r"(\d+)", stem)]
