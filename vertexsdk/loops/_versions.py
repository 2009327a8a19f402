"""The versions of a main loop that are in its store, as a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from vertexsdk.loops._ledger import Ledger
from vertexsdk.state import Store

_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("created", pa.timestamp("ms", "UTC")),
        ("changes", pa.int64()),
        ("behind", pa.int64()),
        ("exact", pa.bool_()),
        ("residual", pa.float64()),
        ("queries", pa.int64()),
        ("vertices", pa.int64()),
        ("edges", pa.int64()),
    ]
)


def versions_table(store: Store, loop: str) -> pa.Table:
    """Return a row for each version, the oldest first; see `MainLoop.history`."""
    rows: list[dict[str, Any]] = []
    for iteration in store.versions(loop):
        manifest = store.version(loop, iteration)
        ledger = Ledger.read(manifest)
        rows.append(
            {
                "version": iteration, "created": int(manifest.created * 1000),
                "changes": ledger.received, "behind": ledger.behind,
                "exact": ledger.exact and ledger.state, "residual": ledger.residual,
                "queries": ledger.queries,
                "vertices": manifest.statistics.get("num_vertices"),
                "edges": manifest.statistics.get("num_edges"),
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, _SCHEMA)
