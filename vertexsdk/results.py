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
    def string_ids(self) -> bool:
        """Whether vertices are named by strings; by int64 otherwise."""
        return self._manifest.ids == "str"

    @property
    def aggregates(self) -> dict[str, Any]:
        """The aggregators' last values."""
        return self._manifest.aggregates

    def lookup(self, ids: Any) -> dict[Any, dict[str, Any]]:
        """Return the state of some vertices, without a scan; unknown ids are left out.

        Args:
            ids: an id, or several (a list, an array, ...).

        Raises:
            InputError: the loop's ids are integers and one of these is none.

        >>> result.lookup([17, 42])  # doctest: +SKIP
        {17: {'rank': 0.0021}, 42: {'rank': 0.0013}}
        """
        given = [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)
        wanted = [str(i) for i in given] if self.string_ids else [self._int64(i) for i in given]
        found = self._store.lookup(self.loop, wanted, at=self.iteration, trusted=self._trusted)
        result = {}
        for i in wanted:
            if i in found:
                result[i] = {k: self._plain(k, found[i][k]) for k in self.fields if k in found[i]}
        return result

    def _int64(self, vertex: Any) -> int:
        try:
            number = int(vertex)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"{vertex!r} is no vertex of loop {self.loop!r}: its ids are integers"
            ) from None
        whole = isinstance(vertex, str) or number == vertex
        if not whole or not -(2**63) <= number < 2**63:
            raise InputError(f"{vertex!r} is no vertex of loop {self.loop!r}: its ids are int64")
        return number

    def __getitem__(self, vertex: Any) -> dict[str, Any]:
        found = self.lookup([vertex])
        if not found:
            raise KeyError(vertex)
        return next(iter(found.values()))

    def _plain(self, name: str, value: Any) -> Any:
        value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        return self._name(value) if self._is_id(name) and self.string_ids else value

    def _name(self, code: int) -> str | None:
        """The string id with this code, found by binary search in the partitions' ids."""
        for ref in self._store.segments(self._manifest):
            table = self._store.table(ref)
            ids = np.asarray(table.column("id"))
            at = int(np.searchsorted(ids, code))
            if at < len(ids) and ids[at] == code:
                start, end = np.asarray(table.column("name.offsets"))[at : at + 2].tolist()
                return bytes(np.asarray(table.column("name.bytes"))[start:end]).decode()
        return None

    def _is_id(self, name: str) -> bool:
        return bool((self._manifest.schema or {}).get(name, {}).get("type") == "VertexId")

    def partitions(self) -> Iterator[dict[str, Array]]:
        """Yield each partition's columns: "id", the state fields, and names of string ids."""
        for _, columns in self._store.read(self.loop, at=self.iteration, trusted=self._trusted):
            yield columns

    def columns(self) -> dict[str, Array]:
        """Return all vertices ascending by id: "id" and the state fields, as arrays.

        String ids come as an object array of str.
        """
        parts = list(self.partitions())
        ids = np.concatenate([p["id"] for p in parts])
        order = np.argsort(ids, kind="stable")
        result: dict[str, Array] = {}
        if self.string_ids:
            names = [n for p in parts for n in unpack_strings(p["name.offsets"], p["name.bytes"])]
            result["id"] = np.array(names, object)[order]
        else:
            result["id"] = ids[order]
        for name in self.fields:
            column = np.concatenate([p[name] for p in parts])[order]
            if self._is_id(name) and self.string_ids:
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
        name = self.check_field(field)
        return dict(zip(columns["id"].tolist(), columns[name].tolist(), strict=True))

    def check_field(self, field: str | None) -> str:
        """Return the field's name, the program's result field for None.

        Raises:
            InputError: there is no such field.
        """
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

        from vertexsdk.output import column

        session = spark or self._spark or SparkSession.getActiveSession()
        if session is None:
            raise InputError("dataframe() needs a Spark session: pass one")
        columns = self.columns()
        return session.createDataFrame(pa.table({k: column(v) for k, v in columns.items()}))

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

    def write(self, path: str, field: str | None = None, ids: Iterable[Any] | None = None) -> None:
        """Write `vertex,value` rows to a .csv or .parquet file, ascending by id.

        Args:
            path: a file, which is replaced.
            field: the program's result field by default.
            ids: these vertices only, in this order.

        Raises:
            InputError: no such field or vertex, or a path that cannot be written.
            RunError: no room.
        """
        from vertexsdk.output import write

        name = self.check_field(field)
        if ids is None:
            columns = self.columns()
            write(path, columns["id"], columns[name])
            return
        found = self.require(ids)
        first = next(iter(found.values()))[name] if found else 0.0
        kind = object if isinstance(first, (str, type(None))) else None
        write(path, np.array([*found]), np.array([row[name] for row in found.values()], kind))

    def require(self, ids: Any) -> dict[Any, dict[str, Any]]:
        """Do as `lookup`, but raise InputError for an id which is not there."""
        given = [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)
        found = self.lookup(given)
        missing = [i for i in given if (str(i) if self.string_ids else int(i)) not in found]
        if missing:
            raise InputError(f"no vertex {missing[0]} in loop {self.loop!r}")
        return found

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
