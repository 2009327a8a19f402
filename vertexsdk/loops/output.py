"""Results as rows `vertex,value`: a CSV file, a Parquet file, or a dictionary.

Floats are written with the fewest digits that read back as the same float; unreachable is
`inf`. Rows come partition by partition in ascending order of id. A file appears under its name
when it is complete.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from vertexsdk.errors import InputError, RunError
from vertexsdk.program.algebra import INT_MAX, INT_MIN

__all__ = ["Rows", "check_path", "column", "to_dict", "with_infinities", "write", "write_rows"]

Rows = tuple[Any, Any]
"""Vertex ids (int64[n], or n strings) and the value of each: shape (n,) or (n, k), or objects."""

_AT_ONCE = 1 << 18
_SPECIAL = '[,"\n\r]'  # what makes Arrow quote the texts of a batch, all of them


def check_path(path: str | os.PathLike[str]) -> str:
    """Return the format of an output path: "csv" or "parquet".

    Raises:
        InputError: another suffix, or no directory to write it in. Ask before a long run.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"{path}: cannot tell the format; name it .csv or .parquet")
    directory = Path(path).absolute().parent
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory; make it or choose another output")
    if not os.access(directory, os.W_OK):
        raise InputError(f"{directory}: may not be written to; choose another output")
    return suffix[1:]


def write_rows(path: str | os.PathLike[str], parts: Iterable[Rows]) -> int:
    """Write all parts to a `.csv` file with header `vertex,value`, or a `.parquet` file.

    Args:
        path: where to; an existing file is replaced.
        parts: ids and values of each partition. In CSV a vector is its numbers separated by
            blanks; in Parquet it is a list.

    Returns:
        The number of rows.

    Raises:
        InputError: as `check_path`.
        RunError: the file could not be written; none is left behind.

    Example:
        >>> write_rows("/tmp/out.csv", [(np.array([1, 2]), np.array([0.5, np.inf]))])
        2
    """
    write = _write_csv if check_path(path) == "csv" else _write_parquet
    directory, name = os.path.split(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=directory)
    os.close(descriptor)
    try:
        rows = write(temporary, parts)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        return rows
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"{path}: {reason}; free some room and write again") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def write(path: str | os.PathLike[str], ids: Any, values: Any) -> int:
    """Write one column of ids and one of values, as `write_rows` does."""
    return write_rows(path, [(ids, with_infinities(values) if _is_parquet(path) else values)])


def _is_parquet(path: str | os.PathLike[str]) -> bool:
    return Path(path).suffix.lower() == ".parquet"


def with_infinities(values: Any) -> Any:
    """Turn integers of which some stand for infinity (INT_MAX, INT_MIN) into floats."""
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        return values
    most, least = values == INT_MAX, values == INT_MIN
    if not (most.any() or least.any()):
        return values
    floats = values.astype(np.float64)
    floats[most], floats[least] = np.inf, -np.inf
    return floats


def to_dict(parts: Iterable[Rows]) -> dict[Any, Any]:
    """Return all parts as {vertex: value} of Python's own ids and values; vectors are lists."""
    out: dict[Any, Any] = {}
    for ids, values in parts:
        out.update(zip(_to_list(ids), _to_list(values), strict=True))
    return out


def _to_list(column: Any) -> list[Any]:
    if isinstance(column, np.ndarray):
        return list(column.tolist())
    return list(column.to_pylist()) if isinstance(column, pa.Array) else list(column)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _pieces(parts: Iterable[Rows]) -> Iterator[Rows]:
    for ids, values in parts:
        for k in range(0, len(ids), _AT_ONCE):
            yield ids[k : k + _AT_ONCE], values[k : k + _AT_ONCE]


def _write_csv(path: str, parts: Iterable[Rows]) -> int:
    rows = 0
    with open(path, "wb") as file:
        file.write(b"vertex,value\n")
        for ids, values in _pieces(parts):
            table = pa.table({"vertex": column(ids), "value": _csv_values(values)})
            texts = [c for c in table.columns if pa.types.is_string(c.type)]
            quoted = any(pc.any(pc.match_substring_regex(c, _SPECIAL)).as_py() for c in texts)
            style: Any = "needed" if quoted else "none"
            csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style=style))
            rows += len(ids)
    return rows


def _csv_values(values: Any) -> pa.Array:
    """Values as Arrow writes them, but for floats, which keep a point or an exponent."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        if values.dtype.kind == "f":
            text = pc.cast(pa.array(values.astype(np.float64)), pa.string())
            whole = pc.match_substring_regex(text, "^-?[0-9]+$")
            return pc.if_else(whole, pc.binary_join_element_wise(text, "0", "."), text)
        if values.dtype == np.int64 and (infinite := np.isin(values, (INT_MAX, INT_MIN))).any():
            signed = np.where(values > 0, "inf", "-inf")  # as Min(int) and Max(int) mean them
            return pc.if_else(infinite, signed, pc.cast(pa.array(values), pa.string()))
        if values.dtype.kind != "O":
            return pa.array(values)
    return pa.array([_text(v) for v in _to_list(values)], pa.string())


def _text(value: Any) -> str:
    if isinstance(value, (list, np.ndarray)):
        return " ".join(map(repr, np.asarray(value).tolist()))
    return value if isinstance(value, str) else repr(value)


def _write_parquet(path: str, parts: Iterable[Rows]) -> int:
    import pyarrow.parquet as pq

    rows, writer = 0, None
    try:
        for ids, values in _pieces(parts):
            table = pa.table({"vertex": column(ids), "value": column(values)})
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table.cast(writer.schema))
            rows += len(ids)
        if writer is None:
            nothing = {"vertex": np.empty(0, np.int64), "value": np.empty(0)}
            pq.write_table(pa.table(nothing), path)
    finally:
        if writer is not None:
            writer.close()
    return rows


def column(values: Any) -> pa.Array:
    """The Arrow form of ids or values; objects which Arrow does not know become their `repr`.

    What is masked is null, a vector as a whole.
    """
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        missing = pa.array(mask if mask.ndim == 1 else mask[:, 0])
        full = column(values.data)
        return pc.if_else(missing, pa.scalar(None, full.type), full)
    if isinstance(values, pa.Array):
        return pc.cast(values, pa.string()) if pa.types.is_large_string(values.type) else values
    if isinstance(values, np.ndarray) and values.ndim == 2:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1]).cast(pa.list_(flat.type))
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return pa.array(values)
    objects: list[Any] = list(values)
    try:
        return pa.array(objects)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([v if isinstance(v, str) else repr(v) for v in objects], pa.string())
