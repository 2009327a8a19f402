"""Results as a CSV or a Parquet file of rows `vertex,value`.

Floats are written with the fewest digits that read back as the same float; infinite values are
`inf`. A file appears under its name when it is complete.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from vertexsdk.errors import InputError, RunError
from vertexsdk.program.algebra import INT_MAX, INT_MIN

_ROWS = 1 << 18  # of a CSV file, which are formatted together
_SPECIAL = '[,"\n\r]'  # makes Arrow quote all texts of a batch


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


def write(path: str | os.PathLike[str], ids: Any, values: Any, *, infinite: bool = True) -> int:
    """Write ids and values to a `.csv` file with header `vertex,value`, or a `.parquet` file.

    Args:
        path: where to; an existing file is replaced.
        ids: int64[n], or n strings.
        values: shape (n,) or (n, k), or n objects. In CSV a vector is its numbers separated by
            blanks; in Parquet it is a list.
        infinite: integers at the ends of int64 stand for infinity; ids of vertices do not.

    Returns:
        The number of rows.

    Raises:
        InputError: as `check_path`.
        RunError: the file could not be written; none is left behind.

    Example:
        >>> write("/tmp/out.csv", np.array([1, 2]), np.array([0.5, np.inf]))
        2
    """
    write_file = _write_csv if check_path(path) == "csv" else _write_parquet
    directory, name = os.path.split(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=directory)
    os.close(descriptor)
    try:
        write_file(temporary, ids, values, infinite)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        return len(ids)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"{path}: {reason}; free some room and write again") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_csv(path: str, ids: Any, values: Any, infinite: bool) -> None:
    with open(path, "wb") as file:
        file.write(b"vertex,value\n")
        for k in range(0, len(ids), _ROWS):
            rows = slice(k, k + _ROWS)
            cells = _csv_values(values[rows], infinite)
            table = pa.table({"vertex": column(ids[rows]), "value": cells})
            texts = [c for c in table.columns if pa.types.is_string(c.type)]
            quoted = any(pc.any(pc.match_substring_regex(c, _SPECIAL)).as_py() for c in texts)
            style: Any = "needed" if quoted else "none"
            csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style=style))


def _csv_values(values: Any, infinite: bool) -> pa.Array:
    """Values as Arrow writes them, but for floats, which keep a point or an exponent."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        if values.dtype.kind == "f":
            text = pc.cast(pa.array(values.astype(np.float64)), pa.string())
            integral = pc.match_substring_regex(text, "^-?[0-9]+$")
            return pc.if_else(integral, pc.binary_join_element_wise(text, "0", "."), text)
        ends = np.isin(values, (INT_MAX, INT_MIN))
        if infinite and values.dtype == np.int64 and ends.any():
            signed = np.where(values > 0, "inf", "-inf")  # as Min(int) and Max(int) mean them
            return pc.if_else(ends, signed, pc.cast(pa.array(values), pa.string()))
        if values.dtype.kind != "O":
            return pa.array(values)
    objects = values.tolist() if isinstance(values, np.ndarray) else values
    return pa.array([_text(v) for v in objects], pa.string())


def _text(value: Any) -> str:
    if isinstance(value, (list, np.ndarray)):
        return " ".join(map(repr, np.asarray(value).tolist()))
    return value if isinstance(value, str) else repr(value)


def _write_parquet(path: str, ids: Any, values: Any, infinite: bool) -> None:
    import pyarrow.parquet as pq

    cells = column(with_infinities(values) if infinite else values)
    table = pa.table({"vertex": column(ids), "value": cells})
    pq.write_table(table, path, row_group_size=_ROWS)


def column(values: Any) -> pa.Array:
    """Return ids or values as an Arrow array; objects that Arrow has no type for as their `repr`.

    A masked value is null; so is a vector of which any number is masked.
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
