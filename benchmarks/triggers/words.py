"""Words of pages that change, counted by three systems (figure 13 of the Domino paper)."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.peers import Unavailable
from benchmarks.streaming.pathway import Pathway
from benchmarks.timing import timed
from benchmarks.triggers.pages import Pages, texts
from benchmarks.triggers.sizes import Sizes
from benchmarks.triggers.spark_jobs import in_memory, session_on
from tests.triggers.programs import Words
from vertexsdk import TriggerLoop

_ROOT = Path(__file__).parent.parent.parent


def words(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds until all counts are those of the pages as they are now."""
    pages = Pages(sizes.texts, texts)
    with TriggerLoop(Words, backend=f"lmdb://{process.scratch}/state") as loop:
        took, _ = timed(partial(loop.upsert, "pages", url=pages.urls, text=pages.values))
        process.note("all pages", took)
        for percent, (urls, values) in pages.changes(sizes):
            took, _ = timed(partial(loop.upsert, "pages", url=urls, text=values))
            rows = loop.read("words")
            counts = zip(*(rows[name].to_pylist() for name in ("word", "count")), strict=True)
            check_words(dict(counts), pages.values)
            process.note(f"{percent:g}", took)


def check_words(counts: Mapping[str, int], values: Iterable[str]) -> None:
    """Compare the counts of words with those of texts.

    Raises:
        Wrong: they differ.
    """
    if counts != Counter(word for text in values for word in text.split()):
        raise Wrong("counts of words differ")


def words_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds of a DataFrame job on all pages, which are in memory; it keeps no result."""
    from pyspark.sql import functions as f

    spark, pages = session_on(sizes.cores), Pages(sizes.texts, texts)
    for turn in range(1 + sizes.turns):
        frame = in_memory(spark, pa.table({"url": pages.urls, "text": pages.values}), "url")
        word = f.explode(f.split("text", " ")).alias("word")
        counts = frame.select(word).groupBy("word").count()
        took, _ = timed(counts.write.format("noop").mode("overwrite").save)
        check_words(dict(map(tuple, counts.collect())), pages.values)
        if turn:  # the first one compiles
            process.note("batch", took)
        frame.unpersist()
        pages.change(1.0)


def words_by_pathway(process: CaseProcess, sizes: Sizes) -> None:
    """The same changes as ours in the environment of Pathway, which keeps nothing."""
    pathway = Pathway()
    try:
        pathway.start(process.cache)
    except Unavailable:
        process.note("not installed", 1)
        return
    done = subprocess.run(
        [pathway.python, "-m", "benchmarks.triggers.pathway_words"],
        cwd=_ROOT,
        env={**os.environ, "PATHWAY_THREADS": str(sizes.cores), "PATHWAY_PROCESSES": "1"},
        input=json.dumps(asdict(sizes)), capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"Pathway: {' '.join(done.stderr.split())[-200:]}")
    for line in done.stdout.splitlines():
        told = json.loads(line)
        if not told["right"]:
            raise Wrong("counts of words differ")
        process.note(told["name"], told["seconds"])
