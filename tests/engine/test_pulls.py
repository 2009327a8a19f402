"""A pull leaves every aggregate as its definition says, and marks those which that changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vertexsdk import Max, Min, Sum
from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.plan import delivery_module
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.algebra import Algebra

RULES: dict[str, Any] = {"min": np.minimum, "max": np.maximum, "sum": np.add}


def _graph(rng: np.random.Generator, n: int, m: int) -> Topology:
    source = np.sort(rng.integers(0, n, m))
    target = (n * rng.random(m) ** 3).astype(np.int32)
    order = np.lexsort((source, target))
    nothing = np.empty(0, np.int64)

    def starts(x: Any) -> Any:
        return np.concatenate([[0], np.cumsum(np.bincount(x, minlength=n))]).astype(np.int64)

    return Topology(
        0, 1, np.arange(n), starts(source), target, nothing, np.zeros(2, np.int64),
        nothing.astype(np.int32), np.zeros(2, np.int64), starts(target),
        source[order].astype(np.int32),
    )  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("algebra", [Min(int), Min(float), Max(int), Max(float), Sum(float)])
def test_pulls(algebra: Algebra, threads: int) -> None:
    rng = np.random.default_rng(threads)
    rule = RULES[algebra.kind]
    worse = {"min": 1, "max": -1, "sum": 1}[algebra.kind]
    for n, m in ((1, 3), (900, 2000), (3000, 50_000)):
        t = _graph(rng, n, m)
        d = Delivery(t, algebra, "uniform", delivery_module(algebra), threads)
        sources = np.repeat(np.arange(n), np.diff(t.start))
        msg = np.full(n, algebra.identity, algebra.dtype)
        agg = msg.copy()
        for step in range(12):
            before = agg.copy()
            for share in (rng.choice([0.5, 1.0]), rng.choice([0.0, 0.01])):  # of two classes
                senders = np.flatnonzero(rng.random(n) < share).astype(np.int32)
                if step == 0:
                    new = rng.integers(-9, 9, len(senders)) * 1000
                else:  # better at first, then better and worse, and some are withdrawn
                    by = rng.integers(1, 99, len(senders)) * -worse
                    by[rng.random(len(senders)) < (0 if step < 6 else 0.1)] *= -1
                    new = np.where(msg[senders] == algebra.identity, 5, msg[senders]) + by
                new = new.astype(algebra.dtype)
                new[rng.random(len(senders)) < (0.1 if step > 8 else 0)] = algebra.identity
                differ = new != msg[senders]
                senders, new, old = senders[differ], new[differ], msg[senders[differ]]
                msg[senders] = new
                cut = len(senders) // 2
                parts = [(senders[:cut], old[:cut]), (senders[cut:], old[cut:])]
                d.push(parts, msg, agg)
            changed = d.finish(msg, agg)
            want = np.full(n, algebra.identity, algebra.dtype)
            rule.at(want, t.target, msg[sources])
            assert np.array_equal(agg, want) or np.allclose(agg, want, rtol=1e-12)
            if algebra.kind != "sum":
                assert changed.tolist() == np.flatnonzero(agg != before).tolist()
            assert not d.ch.any()


def test_ties_of_zeros_keep_what_was_there() -> None:
    t = _graph(np.random.default_rng(5), 1, 4)
    algebra = Min(float)
    d = Delivery(t, algebra, "uniform", delivery_module(algebra), 1)
    msg, agg = np.array([-0.0]), np.array([0.0])
    d.push([(np.zeros(1, np.int32), np.array([1.0]))], msg, agg)
    assert d.finish(msg, agg).tolist() == []
    assert str(agg[0]) == "0.0"
