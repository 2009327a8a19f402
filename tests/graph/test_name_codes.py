"""Codes of string ids: they never change, and order as the names do, however names come."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.support import seeds
from vertexsdk.errors import LostError
from vertexsdk.graph.topology.name_codes import NameCodes


def arrow(names: list[str]) -> pa.Array:
    return pa.array(names, pa.large_string())


def test_codes_stay_and_order_as_names() -> None:
    seed = seeds.seed()
    rng = random.Random(seed)
    known = sorted({f"v{rng.randrange(1000)}é" for _ in range(rng.choice([0, 1, 100]))})
    codes = NameCodes(arrow(known))
    of = dict(zip(known, codes.of(arrow(known)).tolist(), strict=True))
    for batch in range(150):
        ways = [f"u{batch:05}", f"t{99999 - batch}", f"w{rng.randrange(10 ** rng.randint(1, 9))}"]
        more = rng.choices(ways, k=4)
        try:
            given = codes.of(arrow(more)).tolist()
        except LostError:  # few seeds are that dense; what was there before stays
            assert batch > 20, seed
            break
        for name, code in zip(more, given, strict=True):
            assert of.setdefault(name, code) == code
    names, ascending = codes.sorted()
    assert names.to_pylist() == sorted(of)
    assert ascending.tolist() == [of[name] for name in sorted(of)]
    assert (np.diff(ascending) > 0).all()
    assert len(codes) == len(of)


def test_names_that_keep_coming_at_one_place_last_long() -> None:
    codes = NameCodes(arrow([f"{k:06}" for k in range(0, 100_000, 10)]))
    for k in range(1000):
        codes.of(arrow([f"000011-{k:04}", f"000031-{9999 - k}"]))
    assert len(codes) == 12_000


def test_codes_that_run_out_are_said() -> None:
    codes = NameCodes(arrow(["a", "c"]))
    names, low = list[str](), "a"
    for k in range(200):  # always between the last two
        names.append(low + "Aa"[k % 2])
        low = low if k % 2 else names[-1]
    with pytest.raises(LostError, match="no free code"):
        list(map(codes.of, (arrow([name]) for name in names)))


def test_places_and_refusals() -> None:
    codes = NameCodes(arrow(["a", "b"]))
    codes.of(arrow(["aa", "c"]))
    new, (offsets, data) = codes.at(np.array([2, 3]))
    assert new.tolist() == codes.of(arrow(["aa", "c"])).tolist()
    assert (offsets.tolist(), data.tobytes()) == ([0, 2, 3], b"aac")
    codes.of(arrow(["99999999999999999999"]))
    assert len(codes) == 5
