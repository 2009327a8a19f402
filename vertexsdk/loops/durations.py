"""Lengths of time and times as users write them, in seconds."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.errors import InputError, excerpt

_UNITS = {
    "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
    "w": 604800.0,
}  # fmt: skip
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*")


def seconds_of(duration: str | float | timedelta) -> float:
    """Return a length of time in seconds.

    Args:
        duration: "7d", "12h", "30m", "10s", "500ms", "1w"; a timedelta; or a number, which is in
            the unit of the times.

    Raises:
        InputError: it is not such a length, or not above 0.

    >>> seconds_of("1.5h"), seconds_of(timedelta(days=1))
    (5400.0, 86400.0)
    """
    seconds = math.nan
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        match = _DURATION.fullmatch(duration)
        if match and (match[2] or "s") in _UNITS:
            seconds = float(match[1]) * _UNITS[match[2] or "s"]
    elif isinstance(duration, (int, float, np.number)) and not isinstance(duration, bool):
        seconds = float(duration)
    if not (math.isfinite(seconds) and seconds > 0):
        raise InputError(
            f"{excerpt(duration)} is not a length of time; write '7d', '12h', '30m', '10s', or a "
            "positive number in the unit of the times"
        )
    return seconds


def time_of(time: Any) -> float:
    """Return a time in seconds since 1970; one without a zone is in UTC.

    Args:
        time: a number, which is returned as it is, a datetime, date, datetime64, or a string in
            ISO 8601.

    Raises:
        InputError: it is not a time.

    >>> time_of("1970-01-02"), time_of(datetime(1970, 1, 1, 1))
    (86400.0, 3600.0)
    """
    seconds = math.nan
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise InputError(
                f"{excerpt(time)} is not a time; write '2026-01-31T12:00:00'"
            ) from None
    if isinstance(time, np.datetime64):
        seconds = float(time.astype("datetime64[us]").astype(np.int64)) / 1e6
        seconds = math.nan if np.isnat(time) else seconds
    elif isinstance(time, datetime):
        zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
        seconds = zoned.timestamp()
    elif isinstance(time, date):
        seconds = datetime(time.year, time.month, time.day, tzinfo=UTC).timestamp()
    elif isinstance(time, (int, float, np.number)) and not isinstance(time, bool):
        seconds = float(time)
    if not math.isfinite(seconds):
        raise InputError(
            f"{excerpt(time)} is not a time; give seconds, a datetime or a string such as "
            "'2026-01-31T12:00:00'"
        )
    return seconds


def times_of(times: Any, size: int) -> NDArray[np.float64]:
    """Return the times of `size` changes, float64[size], in seconds.

    Args:
        times: an array, list, Arrow array or pandas Series of numbers or times; or one for all.

    Raises:
        InputError: another number of them, or one of them is not a time.

    >>> times_of(np.array(["1970-01-02"], "datetime64[D]"), 1)
    array([86400.])
    """
    if isinstance(times, (str, int, float, date, np.datetime64, np.number)):
        return np.full(size, time_of(times))
    if isinstance(times, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_timestamp(times.type) or pa.types.is_date(times.type):
            micros = times.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
            times = micros.cast(pa.float64(), safe=False).to_numpy() / 1e6
        else:
            times = times.to_numpy()
    column = np.asarray(times)
    if column.dtype.kind == "M":
        micros = column.astype("datetime64[us]").astype(np.int64) / 1e6
        column = np.where(np.isnat(column), np.nan, micros)
    elif column.dtype.kind not in "iuf":
        column = np.array([time_of(t) for t in column.ravel().tolist()], np.float64)
    if column.shape != (size,):
        raise InputError(f"times of shape {column.shape} for {size:,} changes; give one for each")
    column = column.astype(np.float64)
    if not np.isfinite(column).all():
        at = int(np.flatnonzero(~np.isfinite(column))[0])
        raise InputError(f"the time of change {at + 1} is {column[at]}; give a finite one")
    return column
