"""Random writes to the table of a class of triggers, and what a batch job computes of its rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tests.triggers import programs
from vertexsdk import TriggerLoop, Triggers

Draw = Callable[[random.Random], Any]
URLS = ["", "a", "b", "ä", "7", '"', "-1", "\0"]
IDS = [0, 1, 2, 3, 5, -1, (1 << 63) - 1, -(1 << 63)]


@dataclass(frozen=True)
class Case:
    """A class of triggers with its oracle.

    Attributes:
        cls: the class.
        table: that is written to.
        keys: of its rows.
        columns: draws the value of each, by name.
        result: the table that is compared.
        expected: computes its rows.
    """

    cls: type[Triggers]
    table: str
    keys: list[Any]
    columns: Mapping[str, Draw]
    result: str
    expected: Callable[[programs.Rows], dict[Any, dict[str, Any]]]


def _some(items: list[Any], most: int) -> Draw:
    return lambda chance: chance.choices(items, k=chance.randint(0, most))


def _edges(chance: random.Random) -> dict[int, float]:
    return {t: float(chance.choice([0.5, 1, 1, 2, 7])) for t in _some(IDS, 3)(chance)}


def _tags(chance: random.Random) -> dict[str, int]:
    return {tag: chance.randint(0, 3) for tag in _some(["weight", "b"], 2)(chance)}


_LINKS = {"links": _some(URLS, 3)}
_NODES = {"edges": _edges, "source": lambda chance: chance.random() < 0.25}
CASES = {
    "words": Case(
        programs.Words, "pages", URLS,
        {"text": lambda chance: " ".join(chance.choices("abcde", k=chance.randint(0, 4)))},
        "words", programs.count_words,
    ),
    "rank": Case(programs.Rank, "pages", URLS, _LINKS, "pages", programs.page_ranks),
    "asynchronous rank": Case(
        programs.AsynchronousRank, "pages", URLS, _LINKS, "pages", programs.page_ranks
    ),
    "distances": Case(programs.Distances, "nodes", IDS, _NODES, "nodes", programs.distances),
    "synchronous distances": Case(
        programs.SynchronousDistances, "nodes", IDS, _NODES, "nodes", programs.distances
    ),
    "colours": Case(
        programs.Colours, "nodes", IDS, {"neighbours": _some(IDS, 3)}, "nodes", programs.colours
    ),
    "crawler": Case(
        programs.Crawler, "pages", URLS,
        {**_LINKS, "wanted": lambda chance: chance.random() < 0.25}, "pages", programs.crawled,
    ),
    "sensors": Case(
        programs.Sensors, "readings", IDS,
        {
            "place": lambda chance: chance.choice(URLS),
            "at": lambda chance: [chance.random(), chance.choice([0.0, -1.5, 1e300])],
            "tags": _tags,
            "raw": lambda chance: chance.choice([b"", b"\0", b"a"]),
        },
        "places", programs.sensors,
    ),
}  # fmt: skip


class History:
    """Writes to a loop, of which it knows the rows.

    Args:
        case: what runs.
        loop: the loop.
        chance: draws the writes.
        rows: that the loop has already.
    """

    def __init__(
        self, case: Case, loop: TriggerLoop, chance: random.Random,
        rows: programs.Rows | None = None,
    ) -> None:  # fmt: skip
        self.case, self.loop, self.chance = case, loop, chance
        self.rows: dict[Any, dict[str, Any]] = {k: dict(row) for k, row in (rows or {}).items()}

    def step(self) -> None:
        """Write or delete a few rows."""
        if self.rows and self.chance.random() < 0.3:
            keys = self.chance.choices(
                [*self.rows, *self.case.keys[:1]], k=self.chance.randint(1, 2)
            )
            self.loop.delete(self.case.table, keys if len(keys) > 1 else keys[0])
            for key in keys:
                self.rows.pop(key, None)
            return
        keys = self.chance.choices(self.case.keys, k=self.chance.randint(1, 4))
        names = [n for n in self.case.columns if self.chance.random() < 0.8]
        columns = {n: [self.case.columns[n](self.chance) for _ in keys] for n in names}
        self._upsert(keys, columns)
        for k, key in enumerate(keys):
            row = self.rows.setdefault(key, self.blank())
            row |= {name: values[k] for name, values in columns.items()}

    def _upsert(self, keys: list[Any], columns: dict[str, list[Any]]) -> None:
        name = getattr(self.case.cls, self.case.table).key_name
        dicts = any(isinstance(value, dict) for values in columns.values() for value in values)
        if self.chance.random() < 0.3 and not dicts:
            self.loop.upsert(self.case.table, pa.table({name: keys, **columns}))
        elif len(keys) == 1:
            own = {column: values[0] for column, values in columns.items()}
            self.loop.upsert(self.case.table, **{name: keys[0]}, **own)
        else:
            self.loop.upsert(self.case.table, **{name: keys}, **columns)

    def blank(self) -> dict[str, Any]:
        """Return the row of a key whose columns are not given."""
        table = getattr(self.case.cls, self.case.table)
        blank = {n: table.columns[n].show(table.columns[n].default) for n in self.case.columns}
        return {n: dict(v) if isinstance(v, Mapping) else v for n, v in blank.items()}

    def check(self) -> None:
        """Compare the result with that of the batch job."""
        found = self.loop.read(self.case.result)
        key = found.column_names[0]
        rows = {row[key]: row for row in found.to_pylist()}
        expected = self.case.expected(self.rows)
        assert set(rows) == set(expected), (rows, expected, self.rows)
        looked_up = self.loop.lookup(self.case.result, list(expected))
        for k, row in expected.items():
            for name, value in row.items():
                assert same(looked_up[k][name], value), (k, name, looked_up[k], row)
        assert list(rows) == sorted(rows)


def crash(loop: TriggerLoop) -> None:
    """End a loop as a driver that is killed does: without a snapshot."""
    loop._lose_engine()
    loop._end(RuntimeError("it ended without a snapshot"))


def same(value: Any, expected: Any) -> bool:
    """Whether a value is the expected one, floats nearly."""
    if isinstance(expected, float | np.ndarray):
        return bool(np.allclose(value, expected, rtol=1e-9, atol=1e-9))
    if isinstance(expected, dict):
        return dict(value) == expected
    return type(value) is type(expected) and bool(value == expected)
