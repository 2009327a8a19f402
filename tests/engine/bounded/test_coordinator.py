"""The coordinator: what it makes of reports that come late, and not in the order of the posts."""

from __future__ import annotations

import random
from collections import deque

import pytest

from tests.support.seeds import seed
from vertexsdk.engine.pace import Coordinator, PaceReport
from vertexsdk.errors import RunError


def report(low: int | None, heard: int = 1, **told: object) -> PaceReport:
    """Return a report of one of two partitions, which waits and has sent nothing."""
    whole = {"clock": 0, "waits": True, "received": [0, 0], "sent": [], **told}
    return PaceReport(low, heard, **whole)  # type: ignore[arg-type]


def test_a_report_waits_for_those_that_tell_of_the_posts_before_it() -> None:
    known = Coordinator(2, 10, None, 1)
    known.report(1, report(None, received=[1, 0]))
    known.report(0, report(None, sent=[(1, [])], waits=False))
    assert known.reason == "quiet"
    known = Coordinator(2, 10, None, 1)
    known.report(1, report(None, received=[1, 0]))
    assert not known.advance()
    assert known.reason is None  # the report of 1 is from a time when 0 had sent something
    known.report(0, report(5, sent=[(1, [4])]))
    assert known.advance()
    assert (known.tau, known.last, known.reason) == (5, 10, None)


def test_all_updates_of_a_post_are_counted() -> None:
    known = Coordinator(2, 4, None, 1)
    known.report(0, report(None, sent=[(1, [3, 4])]))
    known.report(1, report(None))
    assert not known.advance()
    assert (known.tau, known.last) == (1, 4)  # 4 is the last one: its consumer was not asked
    known.report(1, report(5, received=[1, 0]))
    assert known.advance()
    assert (known.tau, known.last) == (5, 4)  # nobody has heard of 5
    for p in range(2):
        known.report(p, report(5, heard=5, received=[p, 0]))
    assert known.advance()
    assert (known.tau, known.last) == (5, 8)


def test_a_limit() -> None:
    known = Coordinator(2, 10, 3, 1)
    assert (known.tau, known.last) == (1, 3)
    for p in range(2):
        known.report(p, report(4))
    known.advance()
    assert (known.last, known.reason) == (3, "max_iterations")


def test_partitions_that_all_wait_are_seen() -> None:
    known = Coordinator(2, 2, None, 1)
    known.report(0, report(1, sent=[(1, [])]))
    known.report(1, report(1))
    assert not known.advance()  # a post is on its way
    known.report(1, report(1, received=[1, 0]))
    with pytest.raises(
        RunError, match="no partition continues from iteration 1 with a delay bound"
    ):
        known.advance()


def test_what_it_says_is_true_whatever_comes_when() -> None:
    """Partitions with nothing but iterations to do, and posts that give others some to do."""
    chance = random.Random(seed())
    for _ in range(200):
        n, left = chance.randint(1, 4), chance.randint(0, 40)
        todo: list[list[int]] = [[1] for _ in range(n)]  # iterations to commit in, by partition
        received = [[0] * n for _ in range(n)]
        posts = {(p, q): deque[list[int]]() for p in range(n) for q in range(n)}
        reports = [deque[PaceReport]() for _ in range(n)]
        known = Coordinator(n, 1000, None, 1)

        def true(
            todo: list[list[int]] = todo, posts: dict[tuple[int, int], deque[list[int]]] = posts
        ) -> int | None:
            iterations = [i for each in todo for i in each]
            iterations += [i for way in posts.values() for post in way for i in post]
            return min(iterations, default=None)

        while not known.reason:
            p = chance.randrange(n)
            if chance.random() < 0.5 and reports[p]:
                known.report(p, reports[p].popleft())
                known.advance()
                first = true()
                assert first is None or known.tau <= first
                assert (known.reason is None) or first is None
                continue
            for q in range(n):
                while posts[q, p] and chance.random() < 0.7:
                    received[p][q] += 1
                    todo[p] += [i + 1 for i in posts[q, p].popleft()]
            sent = []
            if todo[p] and chance.random() < 0.8:
                done = min(todo[p])
                todo[p].remove(done)
                if left:
                    left -= 1
                    todo[p] += [done + chance.randint(1, 3)] * chance.randint(0, 1)
                    sent = [(chance.randrange(n), [done][: chance.randint(0, 1)])]
                    sent = [(q, i) for q, i in sent if q != p]
                for q, iterations in sent:
                    posts[p, q].append(iterations)
            low = min(todo[p], default=None)
            reports[p].append(PaceReport(low, 1, 0, False, tuple(received[p]), sent))
        assert true() is None
