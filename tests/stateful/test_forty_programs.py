"""Forty programs that a user might write: each answers as its plain object does, at any number of
partitions, or is refused by the line that does it."""

from __future__ import annotations

import inspect
import random

import pytest

from tests.stateful import forty_programs as programs
from tests.stateful.histories import History
from tests.support.seeds import draws, seed
from vertexsdk import ProgramError, Stateful, StatefulLoop
from vertexsdk.stateful.analysis import program_of

PARTITIONS = (1, 2, 7)


@pytest.mark.parametrize("cls", programs.CALLS)
@pytest.mark.parametrize("partitions", PARTITIONS)
def test_it_answers_as_a_plain_object(cls: type[Stateful], partitions: int) -> None:
    chance = random.Random(seed())
    url = f"memory://forty-{cls.__name__}-{partitions}"
    with StatefulLoop(cls, backend=url, partitions=partitions) as flow:
        history = History(cls, flow, chance)
        for _ in range(draws(4, 15)):
            history.step()
        history.check()
    others = [p for p in PARTITIONS if p != partitions]
    with StatefulLoop.resume(cls, backend=url, partitions=chance.choice(others)) as history.flow:
        history.check()
        history.step()
        history.check()


@pytest.mark.parametrize("cls", programs.REFUSED)
def test_it_is_refused_by_its_line(cls: type[Stateful]) -> None:
    lines, first = inspect.getsourcelines(cls)
    at, expected = next(
        (first + k, line.rpartition("# refused: ")[2].strip())
        for k, line in enumerate(lines)
        if "# refused: " in line
    )
    with pytest.raises(ProgramError) as error:
        program_of(cls)
    message = str(error.value)
    assert message.startswith(f"{programs.__file__}:{at}: {cls.__name__}."), message
    assert expected in message
    assert "\n" not in message


def test_there_are_forty() -> None:
    assert len(programs.CALLS) + len(programs.REFUSED) >= 40
    for cls, drawn in programs.CALLS.items():
        assert set(drawn) == set(program_of(cls).methods)
