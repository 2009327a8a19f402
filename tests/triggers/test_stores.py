"""What another program, other text, and a reader of the store get to see."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from vertexsdk import (
    CallError,
    InputError,
    Max,
    Sum,
    Table,
    TriggerLoop,
    Triggers,
    accumulate,
    on_change,
)
from vertexsdk.state import open_store
from vertexsdk.state.errors import OwnerError
from vertexsdk.state.sql_view import segment_parts
from vertexsdk.stateful.stateful_loop import StoredState


def program(algebra: Any = None, name: str = "count", **columns: Any) -> type[Triggers]:
    """A class `Words`, which differs in some way."""

    class Words(Triggers):
        pages = Table(url=str, text=str, **columns)
        words = Table(word=str, count=int)

        @accumulate(algebra or Sum(int))
        def parts(self, word, count):
            self.words[word].count = count

    def count(self, page, old):
        for word in old.text.split():
            self.parts[word].discard(page.url)
        for word in page.text.split():
            self.parts[word][page.url] = 1

    setattr(Words, name, on_change(Words.pages, "text")(count))
    return Words


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (program(size=int), r"\(pages.size was added; Words_count_seen.size was added\)"),
        (program(Max(int)), r"\(Words_parts.cells was algebra sum, is algebra max\)"),
        (program(name="see"), r"\(Words_see_seen was added; Words_count_seen was removed\)"),
    ],
)
def test_a_resume_by_another_program_says_what_differs(
    other: type[Triggers], message: str, tmp_path: Any
) -> None:
    url = f"lmdb://{tmp_path}/store"
    with TriggerLoop(program(), backend=url) as loop:
        loop.upsert("pages", url="a", text="x y")
    with pytest.raises(OwnerError, match="was written with other state fields " + message):
        TriggerLoop.resume(other, backend=url)
    with TriggerLoop.resume(program(), backend=url) as loop:
        assert loop.read("words").num_rows == 2


def test_what_the_loop_keeps_for_itself_is_not_shown(tmp_path: Any) -> None:
    """Neither by `vertexsdk query`, which reads `StoredState`, nor in the view of Postgres."""
    url = f"lmdb://{tmp_path}/store"
    with TriggerLoop(program(), backend=url) as loop:
        loop.upsert("pages", url=["a", "b"], text=["x y", "y"])
    with open_store(url) as store:
        manifest = store.version("Words")
        words = StoredState(store, manifest, "words")
        assert dict(words.rows()) == {"x": {"count": 1}, "y": {"count": 2}}
        assert dict(words.rows(["y"])) == {"y": {"count": 2}}
        with pytest.raises(InputError, match="has the state elements pages, words: give one"):
            StoredState(store, manifest, "Words_count_seen")
        refs = [ref for ref in store.segments(manifest) if ref.kind in ("base", "delta")]
        parts = list(segment_parts(store, manifest, refs))  # type: ignore[arg-type]
        assert {str(part["class"][0]) for part in parts if len(part["class"])} == {"pages", "words"}
        assert all({"inserted_", "writers_", "cells"}.isdisjoint(part) for part in parts)


class Other(Triggers):
    """What an action writes has text that is none."""

    rows = Table(key=str, text=str)
    out = Table(key=str, text=str)

    @on_change(rows)
    def act(self, row, old):
        if row.text == "key":
            self.out["\ud800"].text = "a"
        elif row.text == "value":
            self.out["a"].text = "\ud800"
        elif row.text == "cell":
            self.parts["\ud800"]["a"] = 1
        elif row.text == "column":
            self.parts["a"]["\ud800"] = 1
        self.out[row.key].text = row.text

    @accumulate(Sum(int))
    def parts(self, key, total):
        self.out[key].text = str(total)


def test_text_that_cannot_be_encoded_is_refused() -> None:
    """A table with it could not be read again."""
    half = "a half of a surrogate pair, which is not a character: decode the bytes with errors="
    with TriggerLoop(Other, backend="memory://half") as loop:
        for rows in ({"key": "\ud800", "text": "a"}, {"key": ["a", "b"], "text": ["\udfff", "b"]}):
            with pytest.raises(InputError, match=rf"rows, column (key|text): .* has {half}"):
                loop.upsert("rows", **rows)
        assert loop.lookup("rows", "\ud800") == {}
        for text in ("key", "value", "cell", "column"):
            with pytest.raises(CallError, match=rf"Other\.act, row 'k': InputError: .*{half}"):
                loop.upsert("rows", key="k", text=text)
        loop.upsert("rows", key="ß", text="日本 🎉")
        assert loop.read("out").to_pylist() == [{"key": "ß", "text": "日本 🎉"}]


def test_columns_of_the_same_name_are_refused() -> None:
    rows = [pa.array(["a"]), pa.array(["b"]), pa.array(["c"])]
    names = ["key", "text", "text"]
    tables = [
        pa.Table.from_arrays(rows, names=names),
        pd.DataFrame([["a", "b", "c"]], columns=names),
    ]
    with TriggerLoop(Other, backend="memory://twins") as loop:
        for table in tables:
            with pytest.raises(InputError, match="the table has 2 columns 'text': rename or drop"):
                loop.upsert("rows", table)


def test_a_class_without_a_file() -> None:
    """Made by `exec`, as tools do."""
    names: dict[str, Any] = {}
    exec(
        "from vertexsdk import *\nclass Kept(Triggers):\n    rows = Table(key=str, n=int)\n", names
    )
    with TriggerLoop(names["Kept"], backend="memory://kept") as loop:
        loop.upsert("rows", key="a", n=1)
        assert loop.lookup("rows", "a") == {"a": {"n": 1}}
