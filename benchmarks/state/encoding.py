"""Columns as bytes: blocks between partitions in raw form and as Arrow tables, and stored segments.

python -m benchmarks.state.encoding
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np

from vertexsdk.arrays.arrow_table import Table, encode
from vertexsdk.arrays.packed_strings import pack_strings
from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.state import Store, open_store


def main() -> None:
    """Print the least and the median microseconds of each operation."""
    random = np.random.default_rng(0)
    for n in (100, 10_000, 1_000_000):
        columns = {"id": np.arange(n), "value": random.random(n)}
        _report(n, _blocks(columns))
        with tempfile.TemporaryDirectory() as folder, open_store(f"lmdb://{folder}/s") as store:
            _report(n, _stored(store, columns, random))


def _report(n: int, works: Iterator[tuple[str, Callable[[], object]]]) -> None:
    for title, work in works:
        times = []
        for _ in range(30):
            began = time.perf_counter()
            work()
            times.append(1e6 * (time.perf_counter() - began))
        print(f"{n:>9,} rows: {title:32} {min(times):>10.1f} {statistics.median(times):>10.1f} us")


def _blocks(columns: dict[str, Any]) -> Iterator[tuple[str, Callable[[], object]]]:
    raw, table = encode_bytes(columns), b"".join(encode(columns))
    yield "raw block, encode", lambda: encode_bytes(columns)
    yield "raw block, decode", lambda: decode(raw)
    yield "Arrow table, encode and join", lambda: b"".join(encode(columns))
    yield "Arrow table, open", lambda: [Table(table).column(n) for n in columns]
    yield (
        "Arrow table, open and verify",
        lambda: [Table(table).column(n, verify=True) for n in columns],
    )


def _stored(
    store: Store, columns: dict[str, Any], random: np.random.Generator
) -> Iterator[tuple[str, Callable[[], object]]]:
    n = len(columns["id"])
    offsets, utf8 = pack_strings([f"v{k}" for k in range(n)])
    named = {**columns, "name.offsets": offsets, "name.bytes": utf8}
    for loop, own, ids in (("ids", columns, "int"), ("names", named, "str")):
        ref = store.put_segment(loop, 0, 0, "base", own)
        store.commit(loop, iteration=0, segments=[ref], ids=ids)
    wanted = cycle(random.integers(0, n, 300).tolist())

    def opened(work: Callable[[], object]) -> Callable[[], object]:
        return lambda: (store.forget_tables(), work())

    yield "point read", lambda: store.lookup("ids", [next(wanted)])
    yield "point read by name", lambda: store.lookup("names", [f"v{next(wanted)}"])
    yield "open, point read", opened(lambda: store.lookup("ids", [next(wanted)]))
    yield "open, point read by name", opened(lambda: store.lookup("names", [f"v{next(wanted)}"]))
    yield "open, read all", opened(lambda: list(store.read("ids")))
    yield "put a base", lambda: store.put_segment("ids", 0, 0, "base", columns)
    batch = {"kind": np.zeros(1, np.uint8), "source": np.ones(1, int), "target": np.ones(1, int)}
    step = iter(range(1, 1000))

    def change() -> None:
        ref = store.put_segment("ids", 0, 1, "changes", batch, group="tail")
        parent = store.head("ids")
        store.commit("ids", iteration=next(step), segments=[ref], parent=parent)

    yield "acknowledge one change", change


if __name__ == "__main__":
    main()
