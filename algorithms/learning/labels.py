"""Labels of users and items, int or str: as callers have them, by code, and as first factors.

A code is the place of a label in an array. That of a label whose ratings are all withdrawn is free,
and the next new label gets it.
"""

from __future__ import annotations

import hashlib
import operator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk import InputError
from vertexsdk.algorithms.learning.instances import hash_uniform
from vertexsdk.algorithms.learning.rows import Floats, Ints

Labels: TypeAlias = NDArray[Any]  # int64, or as many characters as the longest has

_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 by the golden ratio, by which SplitMix64 steps


class Pairs(NamedTuple):
    """A user and an item for each rating.

    Attributes:
        users: int64[n], or str.
        items: int64[n], or str.
    """

    users: Labels
    items: Labels

    @property
    def shape(self) -> tuple[int, int]:
        """The number of ratings, and 2."""
        return len(self.users), 2


def as_pairs(X: Any) -> Pairs:
    """Return users and items.

    Args:
        X: [n, 2], int or str in each column: a list of pairs, an array, an Arrow table, or a data
            frame of pandas or Polars.

    Raises:
        InputError: there are not two columns, or labels that are neither int nor str.

    >>> as_pairs([("Ann", 7), ("Bob", 7)]).items.tolist()
    [7, 7]
    """
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "iloc"):
        X = pa.table(X)
    if not hasattr(X, "shape"):
        rows = list(X)
        X = np.empty((len(rows), 2), object)
        for row, pair in enumerate(rows):
            if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
                raise InputError(f"X[{row}] is {pair!r}; give a user and an item for each rating")
            X[row] = tuple(pair)
    if len(X.shape) != 2 or X.shape[1] != 2:
        raise InputError(f"X has the shape {X.shape}; give a user and an item for each rating")
    if isinstance(X, pa.Table):
        columns = [column.to_pylist() for column in X.columns]
    elif hasattr(X, "iloc"):
        columns = [X.iloc[:, 0], X.iloc[:, 1]]
    else:
        columns = [X[:, 0], X[:, 1]]
    return Pairs(as_labels(columns[0], "users"), as_labels(columns[1], "items"))


def as_labels(values: Any, name: str) -> Labels:
    """Return labels as an array.

    Args:
        values: int or str.
        name: "users" or "items", for messages.

    Raises:
        InputError: labels that are neither all int, of 64 bits, nor all str.
    """
    array = values if isinstance(values, np.ndarray) else None
    if array is not None and array.dtype.kind in "iU":
        return array.astype(np.int64) if array.dtype.kind == "i" else array
    listed = [value.item() if isinstance(value, np.generic) else value for value in values]
    if listed and all(isinstance(value, str) for value in listed):
        if any(value.endswith("\0") for value in listed):
            raise InputError(f"{name} have a label that ends with the character 0: remove it")
        return np.array(listed, np.str_)
    try:
        if any(isinstance(value, bool) for value in listed):
            raise TypeError
        return np.array([operator.index(value) for value in listed], np.int64)
    except (TypeError, OverflowError):
        raise InputError(f"{name} are all int, of 64 bits, or all str") from None


def places_of(ordered: Labels, values: Labels, name: str) -> Ints:
    """Return the places of labels among those in ascending order; -1 where they are not there.

    Raises:
        InputError: labels of the other type.

    >>> places_of(np.array([3, 5]), np.array([5, 4]), "users").tolist()
    [1, -1]
    """
    if ordered.dtype.kind != values.dtype.kind and len(values):
        kind = "int" if ordered.dtype.kind == "i" else "str"
        raise InputError(f"the {name} of earlier ratings are {kind}; give {kind}")
    if not (len(ordered) and len(values)):
        return np.full(len(values), -1)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.where(ordered[at] == values, at, -1)


def with_codes(labels: Labels, free: NDArray[np.bool_], values: Labels, name: str) -> Coded:
    """Return the codes of values, after new ones have got theirs.

    Args:
        labels: by code.
        free: bool for each, whether its code is.
        values: labels, any of them several times.
        name: "users" or "items", for messages.

    Raises:
        InputError: labels of the other type.
    """
    taken = np.flatnonzero(~free)
    taken = taken[np.argsort(labels[taken])]
    unique, inverse = np.unique(values, return_inverse=True)
    at = places_of(labels[taken], unique, name)
    new = unique[at < 0]
    more = np.arange(len(labels), len(labels) + len(new))
    new_codes = np.concatenate([np.flatnonzero(free), more])[: len(new)]
    codes = np.empty(len(unique), np.int64)
    codes[at >= 0], codes[at < 0] = taken[at[at >= 0]], new_codes
    if len(new):
        known = labels
        size = max(len(known), int(new_codes[-1]) + 1)
        labels = np.zeros(size, np.result_type(known, new))
        labels[: len(known)], labels[new_codes] = known, new
    return Coded(codes[inverse.ravel()], labels, new_codes)


class Coded(NamedTuple):
    """The codes that `with_codes` returns.

    Attributes:
        codes: int64[n], the codes of the values.
        labels: by code; another array than before where there are new ones.
        new: int64[m], the codes of new labels.
    """

    codes: Ints
    labels: Labels
    new: Ints


def first_factors(labels: Labels, n_factors: int) -> Floats:
    """Return the factors to begin with, which nothing but the label decides.

    Returns:
        float64[n, n_factors], as if drawn around 0; rows have about the length 1.

    >>> bool(np.all(first_factors(np.array(["a", "b"]), 3)[1] == first_factors(np.array(["b"]), 3)))
    True
    """
    data = (
        label.to_bytes(8, "little", signed=True)
        if isinstance(label, int)
        else label.encode("utf-8", "surrogatepass")
        for label in labels.tolist()
    )
    digests = b"".join([hashlib.blake2b(one, digest_size=8).digest() for one in data])
    steps = np.arange(n_factors, dtype=np.uint64) * np.uint64(_GOLDEN)
    bits = np.frombuffer(digests, np.uint64)[:, None] + steps
    factors: Floats = (2 * hash_uniform(bits) - 1) * np.sqrt(3 / n_factors)
    return factors
