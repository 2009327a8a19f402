"""State elements as a user would write them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from vertexsdk import (
    Broadcast,
    Partitioned,
    PerPartition,
    RowsState,
    StateElement,
    Stateful,
    gather_all,
    on_all,
)


class TopKState(RowsState):
    def add(self, key: Any, name: str, score: float) -> bool:
        """Add a name; return whether it is among the first."""
        scores = {name: other for other, name in self.row_of(key, ())}
        scores[name] = max(score, scores.get(name, score))
        best = self._first(scores)
        self.put(key, best)
        return any(name == other for _, other in best)

    def drop(self, key: Any, name: str) -> None:
        """Remove a name."""
        row = self.row_of(key, ())
        left = tuple(pair for pair in row if pair[1] != name)
        if left == row:
            raise KeyError(name)
        if left:
            self.put(key, left)
        else:
            self.remove(key)

    def best(self, key: Any) -> list[str]:
        """Return the names, the first one first."""
        return [name for _, name in self.row_of(key, ())]

    def scores(self, key: Any) -> list[tuple[float, str]]:
        """Return the scores with their names."""
        return list(self.row_of(key, ()))

    def __contains__(self, key: Any) -> bool:
        return self.row_of(key) is not None

    def leaders(self) -> list[tuple[Any, str]]:
        """Return all keys with their first name."""
        return [(key, row[0][1]) for key, row in self.rows.items()]

    def _first(self, scores: dict[str, float]) -> tuple[tuple[float, str], ...]:
        order = sorted((-score, name) for name, score in scores.items())
        return tuple((-score, name) for score, name in order[: self.element.size])

    def to_fields(self, row: Any) -> Any:
        return json.dumps(row), len(row)

    def from_fields(self, fields: Any) -> Any:
        return tuple((score, name) for score, name in json.loads(fields[0]))

    def combine(self, one: Any, other: Any) -> Any:
        scores = {name: score for score, name in one}
        for score, name in other:
            scores[name] = max(score, scores.get(name, score))
        return self._first(scores)


class TopK(StateElement):
    """The names with the largest scores of each key."""

    state = TopKState
    reads = ("best", "scores", "__contains__", "leaders")
    writes = ("add", "drop")
    without_key = ("leaders",)

    def __init__(self, key: type, *, size: int) -> None:
        super().__init__(key, scores=str, count=int)
        self.size = size


class IntervalsState(RowsState):
    """A row is a dict: of intervals that do not meet, where each begins and ends."""

    def add(self, key: Any, begin: int, end: int) -> None:
        """Add an interval."""
        if begin >= end:
            raise ValueError(f"{begin} to {end} is empty")
        key = self.spec.convert_key(key)
        if key not in self.rows:
            self.put(key, {})
        row = self.rows[key]
        for low, high in [*row.items()]:
            if low <= end and begin <= high:
                begin, end = min(begin, low), max(end, high)
                self.note(row, low, key)
                del row[low]
        self.note(row, begin, key)
        row[begin] = end

    def __delitem__(self, at: tuple[Any, int]) -> None:
        """Remove the interval that a place is in."""
        key, place = at
        key = self.spec.convert_key(key)
        row = self.rows.get(key, {})
        low = next((low for low, high in row.items() if low <= place < high), None)
        if low is None:
            raise KeyError(place)
        self.note(row, low, key)
        del row[low]
        if not row:
            self.remove(key)

    def __getitem__(self, at: tuple[Any, int]) -> bool:
        """Whether a place is in one of the intervals."""
        key, place = at
        return any(low <= place < high for low, high in self.row_of(key, {}).items())

    def length(self, key: Any) -> int:
        """Return how long the intervals are together."""
        return sum(high - low for low, high in self.row_of(key, {}).items())

    def to_fields(self, row: Any) -> str:
        return json.dumps(sorted(row.items()))

    def from_fields(self, fields: Any) -> Any:
        return dict(json.loads(fields))

    def combine(self, one: Any, other: Any) -> Any:
        both: dict[int, int] = {}
        begin = end = None
        for low, high in sorted([*one.items(), *other.items()]):
            begin = low if end is None or low > end else begin
            end = high if end is None or low > end else max(end, high)
            both[begin] = end
        return both


class Intervals(StateElement):
    """For each key intervals of whole numbers."""

    state = IntervalsState
    reads = ("__getitem__", "length")
    writes = ("add", "__delitem__")
    brackets = ("key", "place")

    def __init__(self, key: type) -> None:
        super().__init__(key, intervals=str)


def best_of(parts: list[list[tuple[float, str]]]) -> list[str]:
    """Return the two names with the largest scores."""
    scores: dict[str, float] = {}
    for score, name in (pair for part in parts for pair in part):
        scores[name] = max(score, scores.get(name, score))
    return sorted(scores, key=lambda name: (-scores[name], name))[:2]


class Board(Stateful):
    """Own elements in all three places."""

    best = Partitioned(TopK(str, size=3), key="game")
    hours = Partitioned(Intervals(int), key="room")
    levels = PerPartition(TopK(int, size=2))
    closed = Broadcast(Intervals(str))

    def score(self, game: str, name: str, points: float) -> bool:
        return self.best.add(game, name, points)

    def first(self, game: str) -> list[str]:
        return self.best.best(game)

    def leave(self, game: str, name: str) -> None:
        self.best.drop(game, name)

    def played(self, game: str) -> bool:
        return game in self.best

    def book(self, room: int, begin: int, end: int) -> int:
        self.hours.add(room, begin, end)
        return self.hours.length(room)

    def free(self, room: int, hour: int) -> None:
        del self.hours[room, hour]

    def is_booked(self, room: int, hour: int) -> bool:
        return self.hours[room, hour]

    def finish(self, game: str, level: int, name: str, points: float) -> bool:
        known = self.best.add(game, name, points)
        if points > 8:
            raise ValueError(f"{points} points")
        self.levels.add(level, name, points)
        return known

    def top(self, level: int) -> list[str]:
        return best_of(gather_all(on_all(self.levels).scores(level)))

    def players(self) -> list[tuple[str, str]]:
        return sorted(pair for part in gather_all(on_all(self.best).leaders()) for pair in part)

    def shut(self, game: str, begin: int, end: int) -> None:
        self.closed.add(game, begin, end)

    def play_all(self, games: str, hour: int, points: float) -> list[str]:
        played = [game for game in games.split() if not self.closed[game, hour]]
        for game in played:
            self.best.add(game, "all", points)
        return played


_GAMES, _NAMES, _HOURS = ["a", "b", "ä", "chess"], ["ada", "bob", "eve", "joe"], range(5)
CALLS: dict[type[Stateful], dict[str, Callable[[random.Random], tuple[Any, ...]]]] = {
    Board: {
        "score": lambda c: (c.choice(_GAMES), c.choice(_NAMES), c.randrange(10)),
        "first": lambda c: (c.choice(_GAMES),),
        "leave": lambda c: (c.choice(_GAMES), c.choice(_NAMES)),
        "played": lambda c: (c.choice(_GAMES),),
        "book": lambda c: (c.choice([1, -1]), c.choice(_HOURS), c.choice(_HOURS)),
        "free": lambda c: (c.choice([1, -1]), c.choice(_HOURS)),
        "is_booked": lambda c: (c.choice([1, -1]), c.choice(_HOURS)),
        "finish": lambda c: (
            c.choice(_GAMES), c.choice([0, 1]), c.choice(_NAMES), c.randrange(10),
        ),
        "top": lambda c: (c.choice([0, 1]),),
        "players": lambda c: (),
        "shut": lambda c: (c.choice(_GAMES), c.choice(_HOURS), c.choice(_HOURS)),
        "play_all": lambda c: (
            " ".join(c.choices(_GAMES, k=3)), c.choice(_HOURS), c.randrange(10),
        ),
    },
}  # fmt: skip
