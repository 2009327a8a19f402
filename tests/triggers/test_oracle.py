"""Every program has the rows of the batch job, after any order of writes and deletions."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.seeds import draws, seed
from tests.triggers.histories import CASES, Case, History, crash
from tests.triggers.programs import Rank, Words, count_words, page_ranks
from vertexsdk import TriggerLoop


def run_history(case: Case, url: str, chance: random.Random, **options: Any) -> None:
    """Write to a loop, which is forked, resumed and divided anew; compare with the batch job."""
    options |= {
        "partitions": chance.choice([1, 2, 7]), "snapshot_every": chance.choice([None, 3, 8]),
        "snapshots": chance.choice(["asynchronous", "synchronous"]), "backend": url,
        "schedule": chance.choice(["rounds", "rounds", "eager", "every"]),
    }  # fmt: skip
    print(options)
    history = History(case, TriggerLoop(case.cls, **options, replace=True), chance)
    for _ in range(chance.randint(4, 12)):
        done = chance.random()
        if done < 0.1:
            history.loop.rescale(chance.choice([1, 2, 7]))
        elif done < 0.25:
            if chance.random() < 0.5:
                history.loop.close()
            else:
                crash(history.loop)
            options["partitions"] = chance.choice([1, 2, 7])
            history.loop = TriggerLoop.resume(case.cls, **options)
        elif done < 0.4:
            with history.loop.fork() as fork:
                what_if = History(case, fork, chance, history.rows)
                what_if.step()
                what_if.check()
        else:
            history.step()
        history.check()
    history.loop.close()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["memory", "lmdb"])
def test_rows_are_those_of_the_batch_job(name: str, backend: str, tmp_path: Any) -> None:
    chance = random.Random(seed())
    url = f"lmdb://{tmp_path}/store" if backend == "lmdb" else f"memory://{tmp_path}"
    for _ in range(draws(3, 6)):
        run_history(CASES[name], url, chance)


def test_applications_share_a_table(tmp_path: Any) -> None:
    """One of them may write what the other one watches."""
    chance = random.Random(seed())
    loop = TriggerLoop([Words, Rank], backend=f"memory://{tmp_path}", partitions=2)
    with loop:
        rows: dict[str, dict[str, Any]] = {}
        for _ in range(10):
            url = chance.choice("abcd")
            text = " ".join(chance.choices("abcde", k=3))
            links = chance.choices("abcd", k=chance.randint(0, 2))
            given = chance.choice(
                [{"text": text}, {"links": links}, {"text": text, "links": links}]
            )
            loop.upsert("pages", url=url, **given)
            rows[url] = {"text": "", "links": [], **rows.get(url, {}), **given}
        words = {row.pop("word"): row for row in loop.read("words").to_pylist()}
        assert words == count_words(rows)
        ranks = loop.lookup("pages", list(page_ranks(rows)))
        for url, row in page_ranks(rows).items():
            assert ranks[url]["rank"] == pytest.approx(row["rank"], abs=1e-9)


def test_answers_do_not_depend_on_the_number_of_partitions(tmp_path: Any) -> None:
    """To the last bit, as writes are in the same order, and sums are rounded once."""
    results = []
    for partitions in (1, 2, 7):
        chance = random.Random(seed())
        with TriggerLoop(
            Rank, backend=f"memory://{tmp_path}", partitions=partitions, replace=True
        ) as loop:
            history = History(CASES["rank"], loop, chance)
            for _ in range(12):
                history.step()
            results.append(loop.read("pages").to_pylist())
    assert results[0] == results[1] == results[2]
