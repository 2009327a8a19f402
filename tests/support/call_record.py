"""What a stateful class has to have after a driver's calls: the state of a plain object.

A driver (see `killed_calls`) says which calls it makes before it makes them, and what they answer.
Of calls that were not answered the loop may have some: how many, its own count says. They are all
or none of a bulk call; else the first of them where the driver was killed, and any of them where
calls failed: those by which the state is what the loop has.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.stateful.histories import plain_answer, same, state_of
from tests.support.killed_calls import PROGRAMS, unpacked

__all__ = ["CallRecord"]


class CallRecord:
    """The calls of one class: what was acknowledged, and the plain object on which they were made.

    Args:
        name: of the class.
        place: the directory of the files that are fed to the loop.

    Attributes:
        counts: of what was compared.
        number: of the next call.
    """

    module = "tests.support.killed_calls"

    def __init__(self, name: str, place: Path) -> None:
        self.name, self._program = name, PROGRAMS[name]
        self._plain = self._program.cls()
        self.counts = Counter[str]()
        self.number = self._made = self._lines = 0
        self._files = {str(file): len(self._program.header) for file in self._program.files(place)}
        for file in self._files:
            Path(file).write_text(self._program.header)
        self._open: list[int] = []  # calls that were sent and not answered
        self._outcomes: Sequence[Any] = ()
        self._failed, self._how = False, ""

    @property
    def begun(self) -> bool:
        """Whether the store has the loop."""
        return self._made > 0

    @property
    def options(self) -> list[str]:
        """What a driver is given to go on."""
        return [str(self.number)]

    def take(self, kind: str, words: Sequence[str]) -> None:
        """Take in a line of the driver's log."""
        if kind == "sent":
            self.sent(int(words[0]), int(words[1]), words[2])
        elif kind == "acknowledged":
            self.acknowledged(unpacked(words[0]))
        elif kind == "uncertain":
            self._outcomes, self._failed = unpacked(words[0]), True
        elif kind == "resumed":
            self.resumed(*unpacked(words[0]))
        elif kind == "answered":
            self.answered(*unpacked(words[0]))
        elif kind == "forked":
            self.forked(*unpacked(words[0]))
        elif kind == "rescaled":
            self.counts["rescalings"] += 1

    def sent(self, first: int, count: int, how: str) -> None:
        """Note calls, whose answers are not known yet."""
        assert not self._open, f"{self.name}: call {first} while others are open"
        self._open, self._how = list(range(first, first + count)), how
        self._outcomes, self._failed = [None] * count, False
        self.number = first + count

    def acknowledged(self, outcomes: Sequence[Any]) -> None:
        """Compare the answers to the calls that are open."""
        wrong = self._apply(self._plain, zip(self._open, outcomes, strict=True))
        assert not wrong, f"{self.name}: {wrong}"
        self._close(len(outcomes))

    def resumed(self, calls: int, offsets: Mapping[str, int], rows: Mapping[str, Any]) -> None:
        """Find out which of the open calls the loop has, and compare its state."""
        self._feed(offsets)
        known = [k for k, outcome in enumerate(self._outcomes) if outcome is not None]
        unknown = [k for k, outcome in enumerate(self._outcomes) if outcome is None]
        least, has = self._made + len(known), calls - self._lines
        assert least <= has <= least + len(unknown), (
            f"{self.name}: {least} calls were acknowledged, {len(unknown)} more were sent, the "
            f"loop has {has}"
        )
        done = has - least
        choices: Iterable[Sequence[int]] = [unknown[:done]]
        if self._how == "map":
            assert done in (0, len(unknown)), f"{self.name}: {done} of a bulk call"
        elif self._failed:
            choices = itertools.combinations(unknown, done)
        states = []
        for choice in choices:
            plain = copy.deepcopy(self._plain)
            given = [(self._open[k], self._outcomes[k]) for k in sorted([*known, *choice])]
            wrong = self._apply(plain, given)
            states.append(wrong or _differences(state_of(plain), rows))
            if not states[-1]:
                break
        assert not states[-1], f"{self.name}: {states}"
        self._plain = plain
        self._close(len(known) + done)

    def answered(
        self,
        state: tuple[int, Mapping[str, int], Mapping[str, Any]],
        reads: Sequence[tuple[str, tuple[Any, ...], Any]],
    ) -> None:
        """Compare the state, and answers to calls that only read."""
        self._compare(*state, self._plain, 0)
        for name, arguments, answer in reads:
            expected = plain_answer(self._plain, name, arguments)
            assert same(answer, expected, name), (self.name, name, arguments, answer, expected)
        self.counts["answers"] += 1

    def forked(
        self,
        state: tuple[int, Mapping[str, int], Mapping[str, Any]],
        first: int,
        outcomes: Sequence[Any],
    ) -> None:
        """Compare what a fork has come to with what the same calls do here."""
        self._feed(state[1])
        plain = copy.deepcopy(self._plain)
        wrong = self._apply(plain, enumerate(outcomes, first))
        assert not wrong, f"{self.name}, a fork: {wrong}"
        self._compare(*state, plain, len(outcomes))
        self.counts["forks"] += 1

    def _compare(
        self, calls: int, offsets: Mapping[str, int], rows: Mapping[str, Any], plain: Any, more: int
    ) -> None:
        self._feed(offsets)
        has = calls - self._lines
        assert has == self._made + more, f"{self.name}: {has} calls, not {self._made + more}"
        wrong = _differences(state_of(plain), rows)
        assert not wrong, f"{self.name}: {wrong}"

    def _close(self, made: int) -> None:
        self._made += made
        self.counts["calls"] += made
        self._open, self._outcomes = [], ()

    def _apply(self, plain: Any, calls: Iterable[tuple[int, Any]]) -> str:
        """Make calls on a plain object; return what was answered otherwise, if anything was."""
        for number, outcome in calls:
            name, arguments = self._program.call(number)
            expected = plain_answer(plain, name, arguments)
            if outcome is not None and not same(outcome[0], expected, name):
                return f"{name}{arguments} answered {outcome[0]!r}, not {expected!r}"
        return ""

    def _feed(self, offsets: Mapping[str, int]) -> None:
        """Make the calls of lines up to the offsets that the loop has committed."""
        for file, begin in self._files.items():
            end = offsets.get(f"{self._program.fed} {file}", 0)
            assert end >= begin or begin == len(self._program.header), (
                f"{self.name}: {file} was taken in up to {begin}, the loop has {end}"
            )
            lines = Path(file).read_bytes()[begin:end].decode().split("\n")
            assert not lines.pop(), f"{file}: {end} is within a line"
            for line in lines:
                plain_answer(self._plain, self._program.fed, self._program.arguments(line))
            self._files[file] = max(begin, end)
            self._lines += len(lines)
            self.counts["lines of files"] += len(lines)


def _differences(expected: Mapping[str, Any], rows: Mapping[str, Any]) -> str:
    """Return where rows are others than expected."""
    return "; ".join(
        f"{name}[{key!r}] is {rows[name].get(key)}, not {expected[name].get(key)}"
        for name in expected
        for key in sorted({*expected[name], *rows[name]})
        if expected[name].get(key) != rows[name].get(key)
    )[:1000]
