"""The graphs that a benchmark runs on, made once and kept in a cache directory.

A graph is a folder: ``edges.txt`` (lines ``source target value``), ``edges.parquet`` (columns of
those names, int64), ``reference/*.npy`` (the right answers) and ``graph.json`` (its facts, written
last, so a folder without it is not finished and is made again).

Every system is given the edges as they were drawn and keeps duplicates and self-loops: that is what
GraphX, GraphFrames, igraph and a plain CSR matrix do by themselves; ours is told ``multi=True``,
NetworkX is given a ``MultiDiGraph``. The vertices are the ids which have an edge.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

from benchmarks import communities, edge_files, edge_text, reference, rmat

IntArray = npt.NDArray[np.int64]
Block = tuple[IntArray, IntArray, IntArray]
Blocks = Callable[[], Iterator[Block]]
Answers = dict[str, npt.NDArray[np.generic]]

DRAWN, GIVEN = "drawn evenly from 1..100", "as given with the edges"
_FORMAT = 1  # raise it when the folder's contents change, so that old ones are made again


@dataclass(frozen=True, slots=True)
class BenchGraph:
    """A graph on disk and its facts.

    ``origin`` is where paths start: the vertex with the most out-edges, the least id of those.
    ``duplicates`` counts edges whose (source, target) stood earlier in the file. ``values`` says
    where the edges' values come from.
    """

    name: str
    folder: str
    vertices: int
    edges: int
    duplicates: int
    self_loops: int
    origin: int
    scale: int | None = None
    values: str = DRAWN

    @property
    def text(self) -> str:
        return str(Path(self.folder) / "edges.txt")

    @property
    def parquet(self) -> str:
        return str(Path(self.folder) / "edges.parquet")

    def answer(self, name: str) -> npt.NDArray[np.generic]:
        """One of the reference answers: int64 or float64[vertices], in the order of ``ids``."""
        self.find(name)
        path = Path(self.folder) / "reference" / f"{name}.npy"
        array: npt.NDArray[np.generic] = np.load(path, mmap_mode="r")
        return array

    def find(self, name: str) -> None:
        """Find an answer that was not made with the graph, unless it is there."""
        path = Path(self.folder) / "reference" / f"{name}.npy"
        if name in _LATE and not path.exists():
            _apart(_find, self.folder, _LATE[name])

    @staticmethod
    def open(folder: str) -> BenchGraph:
        """The finished graph in ``folder``."""
        facts = json.loads((Path(folder) / "graph.json").read_text())
        facts.pop("format")
        return BenchGraph(**facts | {"folder": folder})


def of_scale(scale: int, cache: Path) -> BenchGraph:
    """The R-MAT graph of 2**scale ids and 16 * 2**scale edges."""
    return _cached(cache / f"rmat-{scale}", f"R-MAT {scale}", scale, partial(rmat.blocks, scale))


def of_file(path: str, cache: Path) -> BenchGraph:
    """A user's edges, as `edge_files` reads them; values are drawn where it gives none.

    Raises:
        ValueError, OSError: they cannot be read; says why.
    """
    files = edge_files.files_of(path)
    name = Path(path).name
    stem = re.sub(r"[^\w.-]+", "-", name.partition(".")[0]).strip("-") or "edges"
    folder = cache / f"file-{stem}-{edge_files.digest(files)}"
    return _cached(folder, name, None, partial(_of_files, files))


def of_blocks(
    folder: Path, name: str, scale: int | None, blocks: Blocks, origin: int | None = None
) -> BenchGraph:
    """The edges that ``blocks``, a function which can be pickled, gives; kept in ``folder``.

    ``origin``: where paths start, one of its vertices, if not where `BenchGraph` says.
    """
    return _cached(folder, name, scale, blocks, origin)


def _cached(
    folder: Path, name: str, scale: int | None, blocks: Blocks, origin: int | None = None
) -> BenchGraph:
    facts = folder / "graph.json"
    if not facts.exists() or json.loads(facts.read_text()).get("format") != _FORMAT:
        shutil.rmtree(folder, ignore_errors=True)
        _apart(_make, folder, name, scale, blocks, origin)
    return BenchGraph.open(str(folder))


def _apart(function: Callable[..., None], *arguments: object) -> None:
    """Call it in a process of its own, so that the memory of making is given back."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(function, *arguments).result()


def _of_files(files: list[Path]) -> Iterator[Block]:
    source, target, value = edge_files.read(files)
    for first in range(0, source.size, rmat.BLOCK):
        part = slice(first, first + rmat.BLOCK)
        drawn = rmat.values(first, source[part].size)
        yield source[part], target[part], drawn if value is None else value[part]


def _make(folder: Path, name: str, scale: int | None, blocks: Blocks, begin: int | None) -> None:
    (folder / "reference").mkdir(parents=True)
    _write(folder, blocks())
    table = pq.read_table(folder / "edges.parquet")
    raw_source, raw_target, value = (table[c].to_numpy() for c in table.column_names)
    del table
    ids, source, target = _compact(raw_source, raw_target)
    n = ids.size
    origin = int(np.argmax(np.bincount(source, minlength=n)))
    if begin is not None:
        origin = int(np.searchsorted(ids, begin))
    pair = np.sort(source * n + target)
    graph = BenchGraph(
        name=name,
        folder="",
        vertices=n,
        edges=source.size,
        duplicates=int((pair[1:] == pair[:-1]).sum()),
        self_loops=int((source == target).sum()),
        origin=int(ids[origin]),
        scale=scale,
        values=DRAWN if np.array_equal(value, rmat.values(0, value.size)) else GIVEN,
    )
    del pair, raw_source, raw_target
    ranks = reference.pagerank(source, target, n)
    one = np.ones(source.size)
    answers: Answers = {
        "ids": ids,
        "pagerank": ranks.fixed,
        "pagerank_converged": ranks.converged,
        "pagerank_undistributed": ranks.undistributed,
        "pagerank_changes": ranks.changes,
        "components": reference.components(source, target, n),
        "shortest_paths": reference.distances(source, target, value.astype(float), n, origin),
        "bfs": reference.distances(source, target, one, n, origin),
    }
    for key, array in answers.items():
        np.save(folder / "reference" / f"{key}.npy", array)
    (folder / "graph.json").write_text(json.dumps(asdict(graph) | {"format": _FORMAT}))


def _find(folder: str, answers: Callable[[IntArray, IntArray, int], Answers]) -> None:
    """Write answers that were not made with the graph."""
    ids = np.load(Path(folder) / "reference" / "ids.npy")
    table = pq.read_table(Path(folder) / "edges.parquet", columns=["source", "target"])
    source, target = (np.searchsorted(ids, column.to_numpy()) for column in table.columns)
    for key, array in answers(source, target, ids.size).items():
        beside = Path(folder) / "reference" / f"{key}.{os.getpid()}.npy"
        np.save(beside, array)
        beside.replace(Path(folder) / "reference" / f"{key}.npy")


def _labels(source: IntArray, target: IntArray, n: int) -> Answers:
    return {"cdlp": communities.labels(source, target, n)}


def _coefficients(source: IntArray, target: IntArray, n: int) -> Answers:
    found = communities.clustering(source, target, n)
    return {"lcc": found.directed, "lcc_undirected": found.undirected}


_LATE = {"cdlp": _labels, "lcc": _coefficients, "lcc_undirected": _coefficients}
"""Answers that are found when they are first asked for: they take long on a large graph."""


def _compact(source: IntArray, target: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    ids = np.unique(np.concatenate((source, target)))
    return ids, np.searchsorted(ids, source), np.searchsorted(ids, target)


def _write(folder: Path, blocks: Iterable[Block]) -> None:
    schema = pa.schema([(name, pa.int64()) for name in ("source", "target", "value")])
    with (
        (folder / "edges.txt").open("wb") as text,
        pq.ParquetWriter(folder / "edges.parquet", schema) as parquet,
    ):
        for block in blocks:
            text.write(edge_text.lines(*block))
            parquet.write_table(pa.table(list(block), schema=schema))
