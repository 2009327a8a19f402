"""Programs that are drawn: each answer of a changing graph is that of a run from scratch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.drawn_loops import DrawnLoop, check_drawn_loops
from tests.support.random_programs import RandomProgram
from tests.support.recorded_iterations import same_iterations
from tests.support.seeds import draws, seed
from vertexsdk.program.analysis.incremental_rules import why_no_history
from vertexsdk.program.program import Program


@pytest.mark.filterwarnings("ignore::vertexsdk.program.warn.ProgramWarning")
@pytest.mark.parametrize("number", range(draws(12, 25)))
def test_answers_are_those_of_runs_from_scratch(number: int, tmp_path: Path) -> None:
    chance = random.Random(f"{seed()} {number}")
    cls = RandomProgram(chance, f"Drawn{number}", rounds=number % 2 == 1).cls(tmp_path)
    recorded = why_no_history(Program(cls)) is None

    def check(drawn: DrawnLoop) -> None:
        if recorded:
            same_iterations(drawn)

    check_drawn_loops(cls, chance.choice([1, 2, 7]), 2, check)
