"""One program in all the ways there are to run it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.inprocess import InProcess
from tests.support.reference import reference
from vertexsdk.program.program import Program

WAYS: dict[str, Any] = {
    "reference": None,
    "interpreted-1": {"partitions": 1},
    "interpreted-3": {"partitions": 3},
    "compiled-1": {"partitions": 1, "compiled": "require"},
    "compiled-3": {"partitions": 3, "compiled": "require"},
}


@pytest.fixture(params=WAYS)
def execute(request: pytest.FixtureRequest) -> Any:
    """Run a program in one of the ways; returns one field by vertex, and the iterations."""
    how = WAYS[request.param]

    def run(
        program: Any, edges: Any, field: str, vertices: Any = (), params: Any = None, **options: Any
    ) -> tuple[dict[Any, Any], int]:
        whole = program if isinstance(program, Program) else Program(program)
        if how is None:
            result = reference(whole, edges, vertices, params, **options)
            return result.values(field), result.iterations
        runs = InProcess(whole, edges, vertices, **options)
        got, _, iterations = runs.run(params, **how)
        return {v: row[field] for v, row in got.items() if field in row}, iterations

    return run
