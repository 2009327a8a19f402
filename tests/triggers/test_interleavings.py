"""Events in any order: an accumulation at the elementwise maximum of versions misses nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.seeds import draws, seed
from tests.triggers.programs import page_ranks
from vertexsdk import Sum, Table, TriggerLoop, Triggers, accumulate, on_change
from vertexsdk.engine.keyed import trigger_partition
from vertexsdk.engine.keyed.trigger_events import Events, later
from vertexsdk.engine.keyed.trigger_partition import TriggerPartition
from vertexsdk.program.trigger_program import Version


class Spread(Triggers):
    """A contracting program: PageRank, which each page sends on as soon as it has changed."""

    pages = Table(url=str, links=list[str], rank=0.15)

    @on_change(pages, "links", "rank", when="changed")
    def spread(self, page, old):
        for url in page.links:
            self.incoming[url][page.url] = 0.85 * page.rank / len(page.links)

    def changed(self, page, old):
        return page.links != old.links or abs(page.rank - old.rank) > 1e-10

    @accumulate(Sum(float), synchronous=True)
    def incoming(self, url, total):
        self.pages[url].rank = 0.15 + total


def wrong(tests: int, monkeypatch: pytest.MonkeyPatch, *, most: int) -> int:
    """How many of some interleavings of a batch, each call a wave, end with wrong ranks.

    Args:
        tests: how many there are.
        most: it ends after so many wrong ones.
    """
    chance = random.Random(seed())
    monkeypatch.setattr(trigger_partition, "_FEW", 1)
    monkeypatch.setattr(Events, "next_urgent", lambda self: chance.choice(list(self.urgent)))
    count = 0
    for _ in range(tests):
        urls = "abcde"
        rows = {
            url: {"links": chance.sample(urls, chance.randint(1, 2))}
            for url in chance.sample(urls, 5)
        }
        options: Any = {"partitions": chance.choice([1, 2]), "schedule": "eager"}
        with TriggerLoop(Spread, backend="memory://interleavings", replace=True, **options) as loop:
            loop.upsert("pages", url=list(rows), links=[row["links"] for row in rows.values()])
            ranks = loop.lookup("pages", list(urls))
        expected = page_ranks(rows)
        apart = [abs(ranks[url]["rank"] - row["rank"]) for url, row in expected.items()]
        count += int(max(apart) > 1e-6)
        if count == most:
            break
    return count


def test_no_interleaving_ends_with_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong(draws(15, 100), monkeypatch, most=1) == 0


def test_the_version_of_the_event_alone_misses_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of section 5.2.3 of the paper: cells at (1, 5) and (2, 1) hide each other."""

    def of_event(self: Any, version: Version, versions: Any) -> Version:
        return version

    monkeypatch.setattr(TriggerPartition, "_accumulation_version", of_event)
    assert wrong(400, monkeypatch, most=1) == 1


def test_later() -> None:
    assert later((1, 5), (2, 1)) == (2, 5)
    assert later((2, 5), (1, 1)) == (2, 5)
