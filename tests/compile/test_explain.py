"""What `explain` says of programs: whether they compile, and how answers follow changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compile.test_failures import Base, Events, NoNumber, WordInFloat, marked
from vertexsdk import explain
from vertexsdk.algorithms import Degree


class InScatter(Base):
    def scatter(self, iteration):
        for k, target in enumerate(self.targets):  # here: self.targets compiles in `for target in
            self.emit(target, float(k))


@pytest.mark.parametrize("case", [InScatter, WordInFloat, NoNumber, Events])
def test_what_is_refused_is_not_said_to_compile(case: Any) -> None:
    line, reason = marked(case)
    said = explain(case).facts["compiled"]
    assert said.startswith("no: ")
    assert f".py:{line}: " in said
    assert reason in said


def test_what_compiles() -> None:
    assert explain(Degree).facts["compiled"] == "yes"


@pytest.mark.parametrize(
    ("name", "params", "parts"),
    [
        ("pagerank", {}, ["starts from the answer before"]),
        ("kcore", {}, ["refines the iterations"]),
        ("degree", {}, ["takes the edges at the ends"]),
        (
            "pagerank",
            {"iterations": 10},
            [
                "does not continue, as PageRank.converged reads the iteration",
                "does not refine iterations, as PageRank has aggregators",
            ],
        ),
    ],
)
def test_how_answers_follow_changes(name: str, params: dict[str, Any], parts: list[str]) -> None:
    said = explain(name, params).facts["after changes"]
    assert [part for part in parts if part not in said] == []
    assert ("from init" in said) == (len(parts) > 1)
