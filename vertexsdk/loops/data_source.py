"""Results as a Spark data source: `spark.read.format("vertexsdk").load(backend)`.

Spark's workers import it, so this package is installed on them, and they can open the store. One
task reads a version: its columns must fit into the memory of one Python worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from vertexsdk.errors import InputError
from vertexsdk.loops.result import Result, read

_ROWS = 1 << 16  # of a batch
_TYPES = {pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}


class ResultSource(DataSource):
    """A version of a loop, as a table `id` and a column per state field.

    Options: `path` (what `load` takes) is the backend's URL, or "@FILE" for a file that contains
    it; `loop` is the name of the loop; `at` an iteration, by default the newest.

    Example:
        >>> spark.dataSource.register(ResultSource)  # doctest: +SKIP
        >>> ranks = spark.read.format("vertexsdk").option("loop", "pagerank")  # doctest: +SKIP
        >>> ranks.load("lmdb:///home/me/state").orderBy("rank").show(3)  # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "vertexsdk"

    def schema(self) -> str:
        """The columns of the version, in Spark's language.

        Raises:
            InputError: an option is missing.
            StateInputError: no such store, loop or version.
        """
        with opened(self.options) as result:
            return ", ".join(f"`{f.name}` {_spark_type(f.type)}" for f in result.arrow_schema())

    def reader(self, schema: Any) -> ResultReader:
        """Return what reads the version that is the newest now, or the one at `at`."""
        options = dict(self.options)
        with opened(options) as result:
            options["at"] = str(result.iteration)
        return ResultReader(options)


class ResultReader(DataSourceReader):
    """Reads one version, in one task.

    Args:
        options: those of `ResultSource`, with an iteration.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows as record batches."""
        with opened(self.options) as result:
            yield from result.to_arrow().cast(result.arrow_schema()).to_batches(_ROWS)


def opened(options: Any) -> Result:
    """Open the version that the options of a read name."""
    given = {name.lower(): value for name, value in options.items()}
    missing = [name for name in ("path", "loop") if name not in given]
    if missing:
        raise InputError(
            f'format("vertexsdk") needs {" and ".join(missing)}: '
            'spark.read.format("vertexsdk").option("loop", NAME).load(BACKEND)'
        )
    at = given.get("at")
    if at is not None and not at.isdecimal():
        raise InputError(f"at is {at!r}; it must be the number of an iteration")
    return read(given["path"], given["loop"], None if at is None else int(at))


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    return _TYPES.get(kind, "string")
