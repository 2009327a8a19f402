"""What `words_by_pathway` runs: words of pages that change, counted. Pathway and NumPy only."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from typing import Any

import pathway as pw  # type: ignore[import-not-found, unused-ignore]

from benchmarks.triggers.pages import Pages, texts
from benchmarks.triggers.sizes import Sizes

_TICK = "tick"  # a page with one word, which changes with each commit: its end is told of


class PageTexts(pw.Schema):  # type: ignore[misc, unused-ignore]
    url: str = pw.column_definition(primary_key=True)
    text: str


class Feed(pw.io.python.ConnectorSubject):  # type: ignore[misc, unused-ignore]
    """Hands in change after change, each when the counts after the one before are there."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(session_type="upsert")
        self.sizes, self.counts, self.commits = sizes, dict[str, int](), 0
        self.ticked, self.there = False, threading.Event()

    def run(self) -> None:
        pages = Pages(self.sizes.texts, texts)
        self.answer("all pages", pages, pages.urls, pages.values)
        for percent, (urls, values) in pages.changes(self.sizes):
            self.answer(f"{percent:g}", pages, urls, values)

    def answer(self, name: str, pages: Pages[str], urls: list[str], values: list[str]) -> None:
        self.there.clear()
        began = time.perf_counter()
        for url, text in zip(urls, values, strict=True):
            self.next(url=url, text=text)
        self.commits += 1
        self.next(url=_TICK, text=f"{_TICK}{self.commits}")
        self.commit()
        self.there.wait()
        took = time.perf_counter() - began
        right = self.counts == Counter(word for text in pages.values for word in text.split())
        print(json.dumps({"name": name, "seconds": took, "right": right}), flush=True)

    def on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """Keep the counts; of one that changes either half may come first."""
        word, count = row["word"], row["count"]
        if word.startswith(_TICK):
            self.ticked = self.ticked or is_addition
        elif is_addition:
            self.counts[word] = count
        elif self.counts.get(word) == count:
            del self.counts[word]

    def on_time_end(self, time: int) -> None:
        if self.ticked:
            self.ticked = False
            self.there.set()


def main() -> None:
    """Run until the last change is counted."""
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in json.load(sys.stdin).items()}
    feed = Feed(Sizes(**plain))
    pages = pw.io.python.read(feed, schema=PageTexts, autocommit_duration_ms=None)
    split = pages.select(word=pw.apply_with_type(lambda t: tuple(t.split()), list[str], pages.text))
    words = split.flatten(pw.this.word)
    counts = words.groupby(words.word).reduce(words.word, count=pw.reducers.count())
    pw.io.subscribe(counts, on_change=feed.on_change, on_time_end=feed.on_time_end)
    pw.set_license_key(None)  # whose telemetry would be on, if the user has one
    pw.set_monitoring_config(server_endpoint=None)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    os._exit(0)


if __name__ == "__main__":
    main()
