"""A table of another library, as it hands it over."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class ArrowStream:
    """What DuckDB, Polars and others hand over: an object of the Arrow C stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)
