"""Changes of a graph, in order: edges added, removed, or with a new value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from vertexsdk.arrays.packed_strings import is_text
from vertexsdk.errors import InputError, excerpt
from vertexsdk.graph.changes.line import ADD, CHANGE, REMOVE, SIGNS, WORDS, LineFormat
from vertexsdk.graph.changes.table import check_columns, read_rows
from vertexsdk.graph.load.arrow import text_column
from vertexsdk.graph.load.tables import arrow_table
from vertexsdk.graph.topology.edge_attributes import NO_FLOAT, NO_INT, attribute_types, is_left_out
from vertexsdk.state.errors import CorruptError
from vertexsdk.state.stored_columns import Described, described_text
from vertexsdk.transport.transport import is_dataframe

if TYPE_CHECKING:
    from vertexsdk.state import SegmentRef, Store

__all__ = [
    "ADD", "CHANGE", "COUNTS", "REMOVE", "SIGNS", "WORDS", "Changes", "described_changes",
]  # fmt: skip

COUNTS = ("added", "removed", "changed", "unchanged", "absent")  # edges, by what a change met


@dataclass(frozen=True)
class Changes:
    """A batch of k changes, in order.

    The methods `of`, `from_arrays` and `from_dataframe` check what they are given; the constructor
    does not.

    Args:
        kind: uint8[k], `ADD`, `REMOVE` or `CHANGE`.
        source: ids of the sources, an Arrow array of length k, int64 or strings.
        target: ids of the targets, of the same type.
        value: float64[k] or int64[k]; where a change has none, NaN or the least int64. With
            several attributes per edge, objects as `of` takes them, or int64[k, a]; see
            `edge_attributes`.
        places: where each change was read, for error messages; or empty.
        time: float64[k], when each change happened, in seconds; or of length 0.

    Example:
        >>> Changes.of([("+", 1, 2), ("~", 1, 2, 0.5), ("-", 1, 2)]).kind.tolist()
        [0, 2, 1]
    """

    kind: NDArray[np.uint8]
    source: Any
    target: Any
    value: NDArray[Any]
    places: Sequence[str] = ()
    time: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, part: slice) -> Changes:
        return Changes(**{name: column[part] for name, column in vars(self).items()})

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]]) -> Changes:
        """Make changes from tuples.

        Args:
            rows: `(sign, source, target[, value])`; "+" adds an edge, "-" removes it, "~" gives
                it another value. Ids are integers or strings, values are numbers; of edges with
                several attributes, a dict of some or a tuple of all. A value or attribute that
                "+" leaves out, or that is None, stays as it is; of a new edge it is 1, or the first
                member of an IntEnum.

        Raises:
            InputError: an unknown sign, a row of another form, or a value that is not a number.

        >>> len(Changes.of([("+", "a", "b"), ("-", "b", "c")]))
        2
        """
        kinds, sources, targets, values = [], [], [], []
        for row in rows:
            value = row[3] if len(row) == 4 else None
            if len(row) not in (3, 4) or row[0] not in SIGNS or (row[0] == "~" and value is None):
                raise InputError(
                    f"{excerpt(row)} is not a change; write ('+', source, target[, value])"
                )
            kinds.append(SIGNS[row[0]])
            sources.append(row[1])
            targets.append(row[2])
            values.append(value)
        if any(isinstance(x, (int, np.integer)) and abs(int(x)) > 2**53 for x in values):
            # beside a float NumPy would round it; a whole float is as good an integer
            values = [
                int(x) if isinstance(x, float) and x.is_integer() and abs(x) < 2**63 else x
                for x in values
            ]
        if any(isinstance(x, Mapping | tuple) for x in values):
            several = np.empty(len(values), object)
            several[:] = values
            ones = np.ones(len(values))
            return replace(cls.from_arrays(kinds, sources, targets, ones), value=several)
        return cls.from_arrays(kinds, sources, targets, values)

    @classmethod
    def from_arrays(
        cls,
        kind: ArrayLike,
        source: ArrayLike,
        target: ArrayLike,
        value: ArrayLike | Sequence[float | None] | None = None,
        time: ArrayLike | None = None,
    ) -> Changes:
        """Make changes from arrays of shape (k,).

        Args:
            kind: `ADD`, `REMOVE` or `CHANGE` (0, 1, 2).
            source: ids of the sources, integers or strings.
            target: ids of the targets.
            value: numbers, or None where a change has no value; the default is none at all.
            time: when each change happened, in seconds.

        Raises:
            InputError: lengths differ, an unknown kind, a NaN, a `CHANGE` without a value, or an
                id beyond int64.

        >>> Changes.from_arrays([ADD, ADD], [1, 2], [2, 3], [0.5, None]).value.tolist()
        [0.5, nan]
        """
        kinds, sources, targets = np.asarray(kind), id_array(source), id_array(target)
        if kinds.ndim != 1 or not np.isin(kinds, (ADD, REMOVE, CHANGE)).all():
            raise InputError("the kind of a change is ADD, REMOVE or CHANGE (0, 1 or 2)")
        kinds = kinds.astype(np.uint8)
        values, none = _values(value, len(kinds))
        when = np.empty(0) if time is None else np.asarray(time, np.float64)
        if {len(kinds)} != {len(sources), len(targets), len(values), len(when) or len(kinds)}:
            raise InputError(
                "the arrays of changes differ in length; each change needs all of them"
            )
        if (kinds[none] == CHANGE).any():
            raise InputError("a change of a value needs one")
        return cls(kinds, sources, targets, values, (), when)

    @classmethod
    def from_dataframe(
        cls, frame: Any, value: str | None = None, time: str | None = None
    ) -> Changes:
        """Make changes from a DataFrame, in the order of its rows.

        Args:
            frame: a DataFrame of Spark, pandas or Polars, or an Arrow table; columns
                `kind,source,target[,value]`; `kind` is "+", "-", "~" or "add", "remove", "change".
                A value that is null, or NaN in pandas, leaves that of the edge.
            value: the types of several edge attributes (`edge_attributes`); they are columns.
            time: the column with the time of each change: a timestamp, or a number of seconds.

        Raises:
            InputError: a column is missing, or a row is not a change; the message has its number.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": ["+", "-"], "source": [1, 2], "target": [2, 3]})
        >>> len(Changes.from_dataframe(frame))
        2
        """
        if not isinstance(time, str | None):
            raise InputError(f"time is {time!r}; of a DataFrame it must be the name of a column")
        if is_dataframe(frame):
            check_columns(frame.columns, time)  # before Spark computes it
        table = arrow_table(frame, "the changes")
        check_columns(table.column_names, time)
        integer_columns = [n for n in table.column_names if pa.types.is_integer(table[n].type)]
        integers = "source" in integer_columns and "target" in integer_columns
        single = "int64" if "value" in integer_columns else "float64"
        form = LineFormat(integers, value if attribute_types(value) else single)
        columns, bad, times = read_rows(table, form, "the changes", time)
        if len(bad):
            raise InputError(str(bad.first[0]))
        return cls(*columns, times)

    def strings(self) -> tuple[Any, Any]:
        """The ids as Arrow arrays of strings."""
        return pc.cast(self.source, pa.large_string()), pc.cast(self.target, pa.large_string())

    def canonical(self) -> Changes:
        """The same changes of an undirected graph, each edge named from its smaller id.

        Both spellings of an edge become one, so a stable sort by (source, target) keeps all
        changes of an edge in order. Strings compare by code point.

        >>> Changes.of([("+", 3, 1), ("-", 1, 3)]).canonical().source.to_pylist()
        [1, 1]
        """
        if not len(self.kind):
            return self
        turned = pc.greater(self.source, self.target)
        if not pc.any(turned).as_py():
            return self
        return replace(
            self,
            source=pc.if_else(turned, self.target, self.source),
            target=pc.if_else(turned, self.source, self.target),
        )

    @property
    def are_integers(self) -> bool:
        """True if all ids are int64."""
        return bool(pa.types.is_integer(self.source.type) and pa.types.is_integer(self.target.type))


def _values(value: Any, size: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The values, and which changes have none."""
    if size == 0:
        return np.empty(0), np.zeros(0, np.bool_)
    if value is None:
        return np.full(size, NO_FLOAT), np.ones(size, np.bool_)
    if isinstance(value, pa.Array | pa.ChunkedArray):
        value = value.to_pylist() if value.null_count else value.to_numpy()
    values, none = np.empty(0, object), np.zeros(0, np.bool_)
    with suppress(ValueError):  # lists of different lengths
        values = np.asarray(value)
        none = np.zeros(values.shape, np.bool_)
        if values.dtype == object:
            none = np.array([x is None for x in values.tolist()], np.bool_)
            values = np.asarray([1 if x is None else x for x in values.tolist()])
    if values.ndim != 1 or values.dtype.kind not in "if" or is_left_out(values).any():
        raise InputError(
            "the values of changes must be numbers that int64 or float64 can hold, none of them "
            "NaN or -2**63; give attributes as a dict"
        )
    if none.all():
        values = np.full(len(none), NO_FLOAT)
    elif none.any():
        values = values.astype(np.int64 if values.dtype.kind == "i" else np.float64)
        values[none] = NO_FLOAT if values.dtype.kind == "f" else NO_INT
    return values, none


def id_array(ids: Any) -> Any:
    try:
        if isinstance(ids, pa.Array):
            integral = pa.types.is_integer(ids.type)
            if ids.null_count or not (integral or is_text(ids.type)):
                raise InputError("the ids of changes must be integers or strings")
            return pc.cast(ids, pa.int64() if integral else pa.large_string())
        if isinstance(ids, np.ndarray) and ids.dtype.kind == "i" and ids.ndim == 1:
            return pa.array(ids.astype(np.int64, copy=False))
        values = list(ids) if not isinstance(ids, np.ndarray) else ids.tolist()
        if any(isinstance(i, bool) or not isinstance(i, (int, np.integer, str)) for i in values):
            raise InputError("the ids of changes must be integers or strings")
        if any(isinstance(i, str) for i in values):
            return text_column(values)
        return pa.array(values, pa.int64())
    except (pa.ArrowInvalid, OverflowError):
        raise InputError("an id of the changes is beyond int64") from None


def described_changes(
    store: Store, ref: SegmentRef, value_dtype: str | None
) -> dict[str, Described]:
    """Return what a stored segment of changes must have, of edges with these values."""
    table, types = store.table(ref), attribute_types(value_dtype)
    with store.naming_segment(ref):
        value = table.rows("value", 0, 0)
        if value.dtype not in (np.float64, np.int64):
            raise CorruptError(f"column 'value' is {value.dtype}, and values are int64 or float64")
    described = {
        "kind": Described(np.uint8, least=0, most=max(ADD, REMOVE, CHANGE)),
        "value": Described(value.dtype, (len(types),) if types else ()),
        "time": Described(np.float64, required=False),
    }
    for end in ("source", "target"):
        named = f"{end}.offsets" in table
        described |= described_text(end) if named else {end: Described(np.int64)}
    return described
