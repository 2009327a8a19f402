"""A store that somebody else has written: each field of each segment and manifest is altered.

Checksums are right. What is resumed from such a store is refused in one line, or goes on; columns
that the program does not have change nothing. Every trial has a store of its own.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.engine.events.events_programs import PaperPaths, Recorder
from tests.engine.test_run_snapshots import Trails, killed, ring
from tests.support.seeds import seed
from tests.support.stored_at_once import stored_at_once
from vertexsdk import Graph, MainLoop, Program, run
from vertexsdk.algorithms import (
    BreadthFirstSearch,
    ConnectedComponents,
    LabelPropagation,
    PageRank,
    ShortestPaths,
)
from vertexsdk.arrays.arrow_table import Table, encode
from vertexsdk.engine.loop_names import loop_of_snapshots
from vertexsdk.errors import StateError, VertexError
from vertexsdk.state import SegmentKey, SegmentRef, open_store
from vertexsdk.state.contract import Head, NewManifest, new_attempt

Columns = dict[str, NDArray[Any]]
JUNK: list[Any] = [None, True, -1, 1 << 31, 1 << 62, 0.5, "", "x", [], [0], {}, {"id": 1}]


@dataclass
class Image:
    """The newest version of a loop: its manifest as JSON, and its segments."""

    loop: str
    record: dict[str, Any]
    segments: list[tuple[SegmentRef, Columns, Any, Any]]

    @classmethod
    def of(cls, url: str, loop: str) -> Image:
        with open_store(url) as store:
            version = store.version(loop)
            refs = store.segments(version)
            tables = [store.table(ref) for ref in refs]
            segments = [
                (r, {n: t.column(n).copy() for n in t.names}, t.meta, t.groups)
                for r, t in zip(refs, tables, strict=True)
            ]
            record = json.loads(version.encode()[8:])
            return cls(loop, {**record, "complete": True, "depth": 0, "parent": None}, segments)

    def put(self) -> str:
        """Write it to a new store; return its URL."""
        url, put, refs = f"memory://{new_attempt()}", [], []
        for ref, columns, meta, groups in self.segments:
            data = b"".join(encode(columns, meta, groups=groups))
            key = SegmentKey(ref.key.loop, ref.key.partition, ref.key.iteration, new_attempt())
            kind = (ref.kind, ref.group, ref.rows, len(data), Table(data).schema)
            refs.append(SegmentRef(key, *kind))
            put.append((key, [data]))
        record = {**self.record, "name": new_attempt()}
        if record.get("segments") is not None:
            record["segments"] = [ref.to_json() for ref in refs]
        body = json.dumps(record).encode()
        with open_store(url) as store:
            new = NewManifest(record["name"], b"%08x" % zlib.crc32(body) + body, segments=put)
            head = Head(record["name"], 7, 1)
            assert store.backend.swap_head(self.loop, None, head, new)
        return url


Alter = Callable[[Columns, str, random.Random], None]


def _dropped(columns: Columns, name: str, rng: random.Random) -> None:
    del columns[name]


def _of_another_type(columns: Columns, name: str, rng: random.Random) -> None:
    kinds = [np.uint8, np.int32, np.int64, np.float32, np.float64, np.bool_]
    values = columns[name] if columns[name].dtype != object else np.arange(len(columns[name]))
    with np.errstate(invalid="ignore"):
        columns[name] = values.astype(rng.choice([k for k in kinds if k != columns[name].dtype]))


def _of_another_length(columns: Columns, name: str, rng: random.Random) -> None:
    values = columns[name]
    length = rng.choice([0, max(len(values) - 1, 0), len(values) + 1, 3 * len(values) + 2])
    columns[name] = np.resize(values, (length, *values.shape[1:]))


def _of_vectors(columns: Columns, name: str, rng: random.Random) -> None:
    columns[name] = np.stack([columns[name]] * rng.choice([1, 3]), axis=1)


def _far(columns: Columns, name: str, rng: random.Random) -> None:
    values = columns[name]
    if len(values) and values.dtype.kind in "iu":
        info = np.iinfo(values.dtype)
        at = rng.randrange(len(values))
        far = [info.min, info.max, info.max // 2, min(len(values), info.max), 3, values[at]]
        values[at] = rng.choice(far)


def _backwards(columns: Columns, name: str, rng: random.Random) -> None:
    columns[name] = np.ascontiguousarray(columns[name][::-1])


def _pickled(columns: Columns, name: str, rng: random.Random) -> None:
    columns[name] = np.array([{"a": 1}] * max(len(columns[name]), 1), object)


ALTERATIONS: list[Alter] = [
    _dropped, _of_another_type, _of_another_length, _of_vectors, _far, _far, _backwards, _pickled,
]  # fmt: skip


def alterations(image: Image, rng: random.Random, part: float) -> Iterator[tuple[str, Image]]:
    """Copies of a version with one thing altered: each column in each way, and all JSON.

    Args:
        part: of all these, which are drawn.
    """
    for number, (ref, columns, meta, _) in enumerate(image.segments):
        place = f"{ref.kind}/{ref.group}"
        for name in columns:
            for alter in ALTERATIONS:
                if rng.random() > part:
                    continue
                other = copy.deepcopy(image)
                alter(other.segments[number][1], name, rng)
                yield f"{place} {name} {alter.__name__}", other
        for keys in paths(meta):
            if rng.random() > part:
                continue
            other = copy.deepcopy(image)
            put(other.segments[number][2], keys, rng.choice(JUNK))
            yield f"{place} meta {keys}", other
    for keys in paths({n: x for n, x in image.record.items() if n not in ("name", "segments")}):
        if rng.random() > part:
            continue
        other = copy.deepcopy(image)
        put(other.record, keys, rng.choice(JUNK))
        yield f"manifest {keys}", other


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the parts of a JSON value are."""
    if above:
        yield above
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], (*above, key))


def put(value: Any, keys: tuple[Any, ...], new: Any) -> None:
    for key in keys[:-1]:
        value = value[key]
    value[keys[-1]] = new


def try_each(image: Image, part: float, use: Callable[[str], Any]) -> None:
    """Use forged versions: each is refused in one line, or is of no harm.

    Args:
        part: of all alterations, which are drawn, again until some were refused.
    """
    rng, refused, wrong = random.Random(seed()), list[str](), list[str]()
    for _ in range(50):
        for what, forged in alterations(image, rng, part):
            try:
                url = forged.put()
            except (StateError, KeyError):  # of the writer: there is no such segment
                continue
            try:
                use(url)
            except VertexError as error:
                refused.append(str(error))
            except Exception as error:
                wrong.append(f"{what}: {type(error).__name__}: {error}")
        if len(refused) > 3:
            break
    assert wrong == []
    assert [m for m in refused if "\n" in m] == []
    assert len(refused) > 3


# Main loops. ------------------------------------------------------------------------------------

LOOPS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "int": (ConnectedComponents, {}, lambda k: k),
    "str": (ConnectedComponents, {}, lambda k: f"v{k}"),
    "values": (ShortestPaths, {"params": {"origin": 0}}, lambda k: k),
    "sums": (PageRank, {}, lambda k: f"v{k}"),
    "window": (ConnectedComponents, {}, lambda k: k),
}
EDGES = [(k, (7 * k + 3) % 20, 1.0 + k % 5) for k in range(20)]


def loop_image(kind: str) -> Image:
    """A loop with edges, a state, and changes that came later."""
    program, options, name = LOOPS[kind]
    url = f"memory://{new_attempt()}"
    edges = [[name(a) for a, _, _ in EDGES], [name(b) for _, b, _ in EDGES]]
    graph = Graph.from_arrays(*edges, [x for *_, x in EDGES])
    clock = itertools.count()
    with MainLoop(program, graph, backend=url, loop="m", compiled=False, **options) as main:
        if kind == "window":
            main.window(1000)

        def ingest(*changes: Any) -> None:
            times = [float(next(clock)) for _ in changes]
            main.ingest(changes, time=times if kind == "window" else None)

        main.query().close()
        ingest(("+", name(2), name(21), 2.0))
        main.snapshot()
        ingest(("+", name(21), name(5), 1.0), ("-", name(0), name(3)))
        main.query().close()
        ingest(("+", name(3), name(4), 9.0), ("-", name(3), name(4)))
    return Image.of(url, "m")


def resume(kind: str, url: str) -> dict[Any, Any]:
    program, _, _ = LOOPS[kind]
    with MainLoop.resume(None, Program(program), backend=url, loop="m", compiled=False) as main:
        return main.query().to_dict()


def try_all(kind: str, part: float) -> None:
    image = loop_image(kind)
    assert len(resume(kind, image.put())) == 20
    try_each(image, part, lambda url: resume(kind, url))


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", LOOPS)
def test_what_is_resumed_is_checked(kind: str) -> None:
    try_all(kind, 0.1)


@pytest.mark.full
@pytest.mark.parametrize("kind", LOOPS)
def test_what_is_resumed_is_checked_for_every_alteration(kind: str) -> None:
    try_all(kind, 1)


PLANTED = ("alive", "agg", "dirty", "has_value", "owner", "ids", "state.other", "in.start")


@pytest.mark.parametrize("kind", ["int", "str"])
def test_columns_of_another_program_are_not_read(kind: str) -> None:
    """Such as where rows of edges begin, which kernels follow."""
    image = loop_image(kind)
    answer = resume(kind, image.put())
    for ref, columns, _, _ in image.segments:
        if ref.kind == "snapshot" and ref.group != "names":
            columns |= {name: np.zeros(len(columns["id"]), np.int64) for name in PLANTED}
    assert any(name in columns for _, columns, _, _ in image.segments for name in PLANTED)
    assert resume(kind, image.put()) == answer


def resume_events(url: str) -> dict[Any, Any]:
    options = {"backend": url, "loop": "m", "trusted": True}
    with MainLoop.resume(None, Recorder, **options) as main:
        return main.query().to_dict()


@pytest.mark.parametrize("name", [int, str])
def test_what_an_events_loop_is_resumed_from_is_checked(name: type) -> None:
    """Its vertices, and what was sent to them, are pickles of whoever is trusted."""
    url = f"memory://{new_attempt()}"
    ends = [[name(a) for a, _, _ in EDGES], [name(b) for _, b, _ in EDGES]]
    with MainLoop(Recorder, Graph.from_arrays(*ends), backend=url, loop="m") as main:
        main.query().close()
        main.snapshot()
        main.ingest([("+", name(3), name(4)), ("send", name(7), "NOTE", 5)])
    image = Image.of(url, "m")
    assert "NOTE,5" in resume_events(image.put())[name(7)]
    try_each(image, 0.1, resume_events)


# Runs. ------------------------------------------------------------------------------------------


RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "least": (BreadthFirstSearch, {"params": {"origin": 0}}),
    "labels": (LabelPropagation, {}),
    "objects": (Trails, {}),
    "events": (PaperPaths, {"params": {"origin": 0}}),
}


@pytest.mark.parametrize(
    ("kind", "partitions"), [(k, p) for k in RUNS for p in (2, 3) if (k, p) != ("objects", 3)]
)
@pytest.mark.sample(2)
def test_what_a_run_goes_on_from_is_checked(kind: str, partitions: int) -> None:
    url, (program, params) = f"memory://{new_attempt()}", RUNS[kind]
    options = {"compiled": False, "loop": "m", **params}
    with stored_at_once():
        killed(program, url, **options)
    image = Image.of(url, loop_of_snapshots("m"))

    def go_on(url: str) -> Any:
        graph = ring(partitions)
        with run(program, graph, backend=url, resume=True, trusted=True, **options) as got:
            return got.to_dict()

    assert len(go_on(image.put())) == 12
    part = 1 if kind == "events" else 0.1  # it has one column
    try_each(image, part, go_on)
