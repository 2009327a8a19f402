"""A finished loop's results, read from the store: by id without a scan, or whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError, StateInputError
from vertexsdk.state import Manifest, open_store
from vertexsdk.strings import unpack_strings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Result", "read"]

Array = NDArray[Any]
_INTERNAL = ("id", "kind", "name.offsets", "name.bytes", "name.hash", "name.order")
_UNSET = (2**63 - 1, -(2**63))


class Result:
    """One version of a loop, readable from any process that reaches the store.

    Attributes:
        statistics: iterations, hops, updates, messages, bytes, seconds and more of the run.
        iteration: of the version.
    """

    def __init__(
        self,
        backend: str,
        loop: str,
        iteration: int | None = None,
        statistics: Mapping[str, Any] | None = None,
        spark: SparkSession | None = None,
        trusted: bool = False,
    ) -> None:
        self._store = open_store(backend, create=False)
        self.backend, self.loop, self._spark = backend, loop, spark
        self._trusted = trusted or statistics is not None  # written by this very process's run
        if self._store.head(loop) is None:
            known = ", ".join(sorted(self._store.loops())) or "none"
            raise StateInputError(f"there is no loop {loop!r} in the store; loops: {known}")
        self._manifest = self._store.version(loop, iteration)
        self.iteration = self._manifest.iteration
        self.statistics: dict[str, Any] = dict(statistics or self._manifest.statistics)
        self._names: dict[int, str] | None = None

    @property
    def manifest(self) -> Manifest:
        """The version's manifest."""
        return self._manifest

    @property
    def fields(self) -> list[str]:
        """The names of the state fields."""
        return list(self._manifest.schema or {})

    @property
    def aggregates(self) -> dict[str, Any]:
        """The aggregators' last values."""
        return self._manifest.aggregates

    def lookup(self, ids: Iterable[Any]) -> dict[Any, dict[str, Any]]:
        """Return the state of some vertices, without a scan; unknown ids are left out.

        >>> result.lookup([17, 42])  # doctest: +SKIP
        {17: {'rank': 0.0021}, 42: {'rank': 0.0013}}
        """
        wanted = list(ids)
        if self._manifest.ids == "str":
            wanted = [str(i) for i in wanted]
        else:
            try:
                wanted = [int(i) for i in wanted]
            except (TypeError, ValueError):
                raise InputError(f"vertices of loop {self.loop!r} are integers: {ids!r}") from None
        found = self._store.lookup(self.loop, wanted, at=self.iteration)
        result = {}
        for i in wanted:
            if i in found:
                row = {k: v for k, v in found[i].items() if k in self.fields}
                result[i] = {k: self._plain(k, v) for k, v in row.items()}
        return result

    def __getitem__(self, vertex: Any) -> dict[str, Any]:
        found = self.lookup([vertex])
        if not found:
            raise KeyError(vertex)
        return next(iter(found.values()))

    def _plain(self, name: str, value: Any) -> Any:
        value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        if self._is_id(name) and self._manifest.ids == "str":
            return self._decode([value])[0]
        return value

    def _is_id(self, name: str) -> bool:
        return bool((self._manifest.schema or {}).get(name, {}).get("type") == "VertexId")

    def partitions(self) -> Iterator[dict[str, Array]]:
        """Yield each partition's columns: "id", the state fields, and names of string ids."""
        for _, columns in self._store.read(self.loop, at=self.iteration):
            yield columns

    def columns(self) -> dict[str, Array]:
        """Return all vertices ascending by id: "id" and the state fields, as arrays.

        String ids come as an object array of str.
        """
        parts = list(self.partitions())
        ids = np.concatenate([p["id"] for p in parts])
        order = np.argsort(ids, kind="stable")
        result: dict[str, Array] = {}
        if self._manifest.ids == "str":
            names = [n for p in parts for n in unpack_strings(p["name.offsets"], p["name.bytes"])]
            result["id"] = np.array(names, object)[order]
        else:
            result["id"] = ids[order]
        for name in self.fields:
            column = np.concatenate([p[name] for p in parts])[order]
            if self._is_id(name) and self._manifest.ids == "str":
                column = np.array(self._decode(column.tolist()), object)
            result[name] = column
        return result

    def _decode(self, codes: list[int]) -> list[str | None]:
        if self._names is None:
            self._names = {}
            for p in self.partitions():
                names = unpack_strings(p["name.offsets"], p["name.bytes"])
                self._names.update(zip(p["id"].tolist(), names, strict=True))
        return [self._names.get(c) for c in codes]

    @property
    def result_field(self) -> str:
        """The field which output files call `value`."""
        return str(self._manifest.statistics.get("result") or self.fields[0])

    def to_dict(self, field: str | None = None) -> dict[Any, Any]:
        """Return one field of every vertex by id; the program's result field by default."""
        columns = self.columns()
        name = self._field(field)
        return dict(zip(columns["id"].tolist(), columns[name].tolist(), strict=True))

    def _field(self, field: str | None) -> str:
        name = field or self.result_field
        if name not in self.fields:
            raise InputError(f"no field {name!r}; loop {self.loop!r} has: {', '.join(self.fields)}")
        return name

    def dataframe(self, spark: SparkSession | None = None) -> DataFrame:
        """Return a Spark DataFrame: column `id`, then one per state field.

        Raises:
            InputError: there is no Spark session.
        """
        import pyarrow as pa
        from pyspark.sql import SparkSession

        session = spark or self._spark or SparkSession.getActiveSession()
        if session is None:
            raise InputError("dataframe() needs a Spark session: pass one")
        columns = {
            k: pa.array(v.tolist() if v.ndim > 1 or v.dtype == object else v)
            for k, v in self.columns().items()
        }
        return session.createDataFrame(pa.table(columns))

    def to_graphframe(self, edges: DataFrame) -> Any:
        """Return a GraphFrames `GraphFrame`: vertices with their state, and these edges.

        Raises:
            InputError: GraphFrames is not installed.
        """
        try:
            from graphframes import GraphFrame
        except ImportError:
            raise InputError(
                "to_graphframe() needs GraphFrames: pip install 'vertexsdk[graphframes]'"
            ) from None
        return GraphFrame(self.dataframe(), edges)

    def write(self, path: str, field: str | None = None) -> None:
        """Write `vertex,value` rows to a .csv or .parquet file, ascending by id."""
        from vertexsdk.output import write

        columns = self.columns()
        write(path, columns["id"], columns[self._field(field)])

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def read(backend: str, loop: str, at: int | None = None, *, trusted: bool = False) -> Result:
    """Open the newest version of a loop (or the one at an iteration) for reading.

    `trusted` allows to unpickle state fields which are Python objects.

    Raises:
        StateInputError: there is no such store or loop.
    """
    return Result(backend, loop, at, trusted=trusted)
