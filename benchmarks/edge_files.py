"""A user's edge file as columns: text, CSV with headers, Parquet; a folder or glob of these.

Text lines are ``source target [value]``, separated by blanks, tabs or commas; ``#`` starts a
comment. Ids are whole numbers. Where every edge has a value that can be a length, a whole number
that is not negative, those are the values; further columns are not looked at.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

IntArray = npt.NDArray[np.int64]
Edges = tuple[IntArray, IntArray, IntArray | None]

_HEAD = ["source", "target"]


def files_of(path: str) -> list[Path]:
    """The file, or the files of a folder or glob in their order.

    Raises:
        FileNotFoundError: there is none.
    """
    found = sorted(Path(each) for each in glob.glob(path)) or [Path(path)]
    if len(found) == 1 and found[0].is_dir():
        found = sorted(each for each in found[0].iterdir() if each.name[0] not in "._")
    if not found or not all(each.is_file() for each in found):
        raise FileNotFoundError(f"no edge file at {path}")
    return found


def digest(files: list[Path]) -> str:
    """Twelve letters that are others when the contents are."""
    total = hashlib.sha256()
    for each in files:
        total.update(each.read_bytes())
    return total.hexdigest()[:12]


def read(files: list[Path]) -> Edges:
    """Columns source, target and value of all files; value is None where it cannot be used.

    Raises:
        ValueError: a line or a column is not as above.
    """
    source: list[IntArray] = []
    target: list[IntArray] = []
    value: list[IntArray | None] = []
    for each in files:
        blocks = [_parquet(each)] if each.suffix == ".parquet" else _text(each)
        for block in blocks:
            source.append(block[0])
            target.append(block[1])
            value.append(block[2])
    lengths = [each for each in value if each is not None]
    if not sum(each.size for each in source):
        raise ValueError(f"{files[0].name}: there are no edges")
    whole = np.concatenate(lengths) if len(lengths) == len(value) else None
    return np.concatenate(source), np.concatenate(target), whole


def _parquet(path: Path) -> Edges:
    table = pq.read_table(path)
    if not set(_HEAD) <= set(table.column_names):
        raise ValueError(f"{path.name}: a Parquet file needs the columns source and target")
    for name in _HEAD:
        if not pa.types.is_integer(table[name].type) or table[name].null_count:
            raise ValueError(f"{path.name}: the benchmark reads ids that are whole numbers")
    source, target = (table[name].to_numpy().astype(np.int64) for name in _HEAD)
    has = "value" in table.column_names and not table["value"].null_count
    return source, target, _lengths(table["value"].to_numpy()) if has else None


def _text(path: Path, block_lines: int = 1 << 20) -> Iterator[Edges]:
    source: list[int] = []
    target: list[int] = []
    value: list[str] = []
    head = True
    with path.open() as file:
        for number, line in enumerate(file, 1):
            fields = line.split("#", 1)[0].replace(",", " ").split()
            if not fields or (head and fields[:2] == _HEAD):
                continue
            head = False
            try:
                source.append(int(fields[0]))
                target.append(int(fields[1]))
            except (IndexError, ValueError):
                raise ValueError(
                    f"{path.name}:{number}: the benchmark reads lines of two whole numbers"
                ) from None
            value += fields[2:3]
            if len(source) == block_lines:
                yield _block(path, source, target, value)
                source, target, value = [], [], []
    if source:
        yield _block(path, source, target, value)


def _block(path: Path, source: list[int], target: list[int], value: list[str]) -> Edges:
    try:
        columns = np.array(source, np.int64), np.array(target, np.int64)
    except OverflowError:
        raise ValueError(f"{path.name}: an id does not fit 64 bits") from None
    try:
        lengths = _lengths(np.array(value, np.float64)) if len(value) == len(source) else None
    except ValueError:
        lengths = None
    return *columns, lengths


def _lengths(value: npt.NDArray[Any]) -> IntArray | None:
    """The values as int64 where all are whole, not negative and exact, else None."""
    if value.dtype.kind not in "iuf":
        return None
    good = bool(np.all((value >= 0) & (value < 2**53) & (value == np.floor(value))))
    return value.astype(np.int64) if good else None
