"""The graphs that a benchmark runs on, made once and kept in a cache directory.

A graph is a folder: ``edges.txt`` (lines ``source target value``), ``edges.parquet`` (columns of
those names, int64), ``reference/*.npy`` (the right answers) and ``graph.json`` (its facts, written
last, so a folder without it is not finished and is made again).

Every system is given the edges as they were drawn and keeps duplicates and self-loops: that is what
GraphX, GraphFrames, igraph and a plain CSR matrix do by themselves; ours is told ``multi=True``,
NetworkX is given a ``MultiDiGraph``. The vertices are the ids which have an edge.
"""

from __future__ import annotations

import hashlib
import json
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

from benchmarks import edge_text, reference, rmat

IntArray = npt.NDArray[np.int64]
Block = tuple[IntArray, IntArray, IntArray]
Blocks = Callable[[], Iterator[Block]]

_FORMAT = 1  # raise it when the folder's contents change, so that old ones are made again


@dataclass(frozen=True, slots=True)
class BenchGraph:
    """A graph on disk and its facts.

    ``origin`` is where paths start: the vertex with the most out-edges, the least id of those.
    ``duplicates`` counts edges whose (source, target) stood earlier in the file.
    """

    name: str
    folder: str
    vertices: int
    edges: int
    duplicates: int
    self_loops: int
    origin: int
    scale: int | None = None

    @property
    def text(self) -> str:
        return str(Path(self.folder) / "edges.txt")

    @property
    def parquet(self) -> str:
        return str(Path(self.folder) / "edges.parquet")

    def answer(self, name: str) -> npt.NDArray[np.generic]:
        """One of the reference answers: int64 or float64[vertices], in the order of ``ids``."""
        array: npt.NDArray[np.generic] = np.load(
            Path(self.folder) / "reference" / f"{name}.npy", mmap_mode="r"
        )
        return array

    @staticmethod
    def open(folder: str) -> BenchGraph:
        """The finished graph in ``folder``."""
        facts = json.loads((Path(folder) / "graph.json").read_text())
        facts.pop("format")
        return BenchGraph(**facts | {"folder": folder})


def of_scale(scale: int, cache: Path) -> BenchGraph:
    """The R-MAT graph of 2**scale ids and 16 * 2**scale edges."""
    return _cached(cache / f"rmat-{scale}", f"R-MAT {scale}", scale, partial(rmat.blocks, scale))


def of_file(path: Path, cache: Path) -> BenchGraph:
    """A user's edge file: its first two columns, with random values 1..100 as the third.

    Raises:
        ValueError: the file is not made of lines with two whole numbers.
    """
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return _cached(cache / f"{path.stem}-{digest}", path.name, None, partial(_of_text, path))


def of_blocks(folder: Path, name: str, scale: int | None, blocks: Blocks) -> BenchGraph:
    """The edges that ``blocks``, a function which can be pickled, gives; kept in ``folder``."""
    return _cached(folder, name, scale, blocks)


def _cached(folder: Path, name: str, scale: int | None, blocks: Blocks) -> BenchGraph:
    facts = folder / "graph.json"
    if not facts.exists() or json.loads(facts.read_text()).get("format") != _FORMAT:
        shutil.rmtree(folder, ignore_errors=True)
        # A process of its own, so that the memory of making the graph is given back.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            pool.submit(_make, folder, name, scale, blocks).result()
    return BenchGraph.open(str(folder))


def _of_text(path: Path) -> Iterator[Block]:
    first = 0
    for source, target in edge_text.read_pairs(path):
        yield source, target, rmat.values(first, source.size)
        first += source.size


def _make(folder: Path, name: str, scale: int | None, blocks: Blocks) -> None:
    (folder / "reference").mkdir(parents=True)
    _write(folder, blocks())
    table = pq.read_table(folder / "edges.parquet")
    raw_source, raw_target, value = (table[c].to_numpy() for c in table.column_names)
    del table
    ids, source, target = _compact(raw_source, raw_target)
    n = ids.size
    origin = int(np.argmax(np.bincount(source, minlength=n)))
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
    )
    del pair, raw_source, raw_target
    ranks = reference.pagerank(source, target, n)
    one = np.ones(source.size)
    answers: dict[str, npt.NDArray[np.generic]] = {
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
