"""`vertexsdk state ...`, for a person and for a program."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vertexsdk.cli.state_command import add_commands
from vertexsdk.errors import InputError
from vertexsdk.state import StateInputError, Store, open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    place = f"lmdb://{tmp_path}/store"
    with open_store(place) as store:
        for iteration in range(3):
            commit(store, iteration)
    return place


def commit(store: Store, iteration: int) -> None:
    """Iteration i changes the value of vertex i."""
    if iteration == 0:
        columns = {"id": np.arange(10), "value": np.zeros(10)}
    else:
        columns = {"id": np.array([iteration]), "value": np.array([1.0])}
    kind: Any = "delta" if iteration else "base"
    ref = store.put_segment("main", 0, iteration, kind, columns)
    store.commit(
        "main", iteration=iteration, segments=[ref], program="p", parent=store.head("main")
    )


def state(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Run a command; its exit status, and what it printed, as JSON if asked for."""
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())
    given = parser.parse_args(["state", *arguments])
    status = given.command(given)
    said = capsys.readouterr().out
    return status, json.loads(said) if "--json" in arguments else said


def test_every_command_in_both_forms(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = ("--backend", url, "--json")
    _, found = state(capsys, "ls", *to)
    assert [one["loop"] for one in found["loops"]] == ["main"]
    assert found["loops"][0]["versions"] == [0, 1, 2]
    assert "main" in state(capsys, "ls", "--backend", url)[1]
    _, found = state(capsys, "show", "main", *to)
    assert [one["segments"] for one in found["versions"]] == [1, 2, 3]
    assert state(capsys, "show", "main", "--at", "1", *to)[1]["iteration"] == 1
    assert "program: p" in state(capsys, "show", "main", "--at", "1", "--backend", url)[1]
    assert state(capsys, "fork", "main", "b", "--at", "1", *to)[1]["iteration"] == 1
    _, found = state(capsys, "diff", "b", "main@2", *to)
    assert (found["changed"], found["added"], found["fields"]) == ([2], [], {"value": 1})
    assert "changed: 1 (2)" in state(capsys, "diff", "b@1", "main", "--backend", url)[1]
    other = f"lmdb://{tmp_path}/other"
    assert state(capsys, "copy", "main", "--to", other, *to)[1]["versions"] == 3
    status, found = state(capsys, "verify", "--backend", other, "--json")
    assert (status, found["missing"], found["versions"]) == (0, [], 3)
    options = ("--loop", "main", "--keep", "1", "--compact", "--alone", "--grace", "0")
    assert state(capsys, "gc", *options, *to)[1]["versions"] == [0, 1]
    assert "all sound" in state(capsys, "verify", "--backend", url)[1]


def test_damage_gives_status_1(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(url) as store:
        newest = store.version("main")
        store.backend._delete_segments([store.segments(newest)[0].key])  # type: ignore[attr-defined]
        store.put_segment("main", 0, 9, "base", {"id": np.arange(3)})
    status, found = state(capsys, "verify", "--backend", url, "--json")
    assert status == 1
    assert len(found["missing"]) == 1
    assert len(found["unreferenced"]) == 1
    status, said = state(capsys, "verify", "--backend", url)
    assert status == 1
    assert "DAMAGED" in said


@pytest.mark.parametrize(
    "arguments",
    [["show", "absent"], ["fork", "main", "main"], ["diff", "main@9", "no"], ["gc", "--loop", "x"]],
)
def test_unknown_loops_are_named(
    url: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StateInputError, match="loop"):
        state(capsys, *arguments, "--backend", url)


def test_a_grace_that_would_take_what_runs_write_is_refused(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="grace"):
        state(capsys, "gc", "--grace", "1", "--backend", url)
    with pytest.raises(StateInputError, match="no store"):
        state(capsys, "ls", "--backend", url + "-absent")
