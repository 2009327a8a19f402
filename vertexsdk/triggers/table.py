"""`Table`: the typed columns of rows that applications share."""

from __future__ import annotations

from typing import Any

from vertexsdk.errors import ProgramError
from vertexsdk.program.keyed_state import kind_of_type
from vertexsdk.program.table_columns import Column, column_of

MOST_COLUMNS = 62  # besides the key; families have any number


class Table:
    """A table of rows by key, which triggers watch and write to (section 3.1 of the Domino paper).

    The first column is the key. A row is there once it was inserted, or a trigger has given one of
    its columns another value than its default.

    In an action, `self.pages[url].rank = 0.5` sets a column of any row, `+= 1` and `-= 1` add to
    it, `self.pages.add(url)` inserts a row, and `del self.pages[url]` deletes it. Rows of other
    keys may be on other processors: they can be written to, and not read, unless the table is a
    broadcast one. Of what can be read, `row.rank += 1` sets what was read plus 1: where several
    actions add in one round, only the last one counts.

    Args:
        broadcast: every processor has all rows: actions can read them, iterate over them (in the
            order of their keys), and use `in` and `len`. For small tables; `+= 1` of several
            actions in one round counts once.
        columns: the type or the default of each column: `int` (64 bits), `float`, `bool`, `str`,
            `bytes`, `list[T]`, `Array(float, size=n)` or `Family(str, float)`; the key is an `int`
            or a `str`.

    Raises:
        ProgramError: a type that is not supported, or a column that cannot be called so.

    Example:
        >>> Table(url=str, links=list[str], rank=0.15)
        Table(url=str, links=list[str], rank=float)
    """

    def __init__(self, *, broadcast: bool = False, **columns: Any) -> None:
        if not columns:
            raise ProgramError(
                "Table: give its columns, the key first, as Table(url=str, text=str)"
            )
        self.key_name, key = next(iter(columns.items()))
        self.key = kind_of_type(key, ("int", "str"), f"Table: the key {self.key_name} of type")
        self.broadcast = broadcast
        for name in columns:
            if name.startswith("_") or name.endswith("_"):
                raise ProgramError(
                    f"Table: a column cannot be called {name!r}: names begin and end with a letter "
                    "or a digit"
                )
        if len(columns) > MOST_COLUMNS + 1:
            raise ProgramError(
                f"Table: there are {len(columns)} columns, and {MOST_COLUMNS + 1} are the most: "
                "use a Family for sparse ones"
            )
        declared = {name: of for name, of in columns.items() if name != self.key_name}
        self.columns: dict[str, Column] = {
            name: column_of(name, of, "Table") for name, of in declared.items()
        }

    def __repr__(self) -> str:
        shown = [f"{self.key_name}={self.key}"]
        shown += [f"{name}={column.described}" for name, column in self.columns.items()]
        return f"Table({', '.join(shown + ['broadcast=True'] * self.broadcast)})"
