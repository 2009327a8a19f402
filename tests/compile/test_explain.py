"""`explain` says of a program that it compiles exactly where `compiled="require"` takes it."""

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
