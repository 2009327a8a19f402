"""What turns a source's records into deltas for chosen vertices: the paper's ingester."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from vertexsdk.errors import InputError, VertexError
from vertexsdk.graph.changes.deltas import Deltas


class Ingester:
    """Subclass this and write `ingest`, which is called for every record of a source, in order.

    A record is whatever the source gives: a line, a dict, a row of a DataFrame. `ingest`
    turns it into changes by any number of calls of `addEdge`, `removeEdge`, `changeEdge` and
    `send`. It runs in the driver.

    Raises:
        InputError: from `batch`, when `ingest` failed; it names the record.

    Example:
        >>> class Orders(Ingester):
        ...     def ingest(self, record):
        ...         self.addEdge(record["customer"], record["product"])
        ...         self.send(record["product"], "SOLD", record["pieces"])
        >>> batch = Orders().batch([{"customer": 1, "product": 7, "pieces": 3}])
        >>> len(batch), batch.sent[0].kind, batch.sent[0].value
        (2, 'SOLD', 3)
    """

    _rows: list[tuple[Any, ...]]

    # What a user writes. ------------------------------------------------------------------

    def ingest(self, record: Any) -> None:
        """Turn one record into deltas."""
        raise NotImplementedError(f"{type(self).__name__} must define ingest(self, record)")

    # What a user calls in `ingest`. -------------------------------------------------------

    def addEdge(self, source: Any, target: Any, value: Any = None) -> None:
        """Add an edge, or give the one that is there this value; or a dict of edge attributes.

        What is left out stays as it is; of a new edge it is 1, or an IntEnum's first member.
        """
        self._rows.append(("+", source, target, value))

    def removeEdge(self, source: Any, target: Any) -> None:
        """Remove an edge."""
        self._rows.append(("-", source, target))

    def changeEdge(self, source: Any, target: Any, value: Any) -> None:
        """Give an edge that is there another value, or other attributes (a dict)."""
        self._rows.append(("~", source, target, value))

    def send(self, vertex: Any, kind: str, value: Any = None) -> None:
        """Send a vertex a delta that is no edge: `gather` gets it as `delta.kind`, `delta.value`.

        The vertex comes to be if it is not there. Needs a program without `messages`.

        Args:
            vertex: its id.
            kind: a string of the program's own, such as "RATING".
            value: anything that can be pickled.
        """
        self._rows.append(("send", vertex, kind, value))

    # What a loop calls. -------------------------------------------------------------------

    def batch(self, records: Iterable[Any]) -> Deltas:
        """Call `ingest` for each record.

        Args:
            records: in the order of the source.

        Returns:
            The changes and deltas of all records, in order.

        Raises:
            InputError: `ingest` failed; the message names the record.
        """
        rows: list[tuple[Any, ...]] = []
        places: list[str] = []
        name = type(self).__name__
        for number, record in enumerate(records, 1):
            self._rows = []
            place = f"{name}, record {number}"
            try:
                self.ingest(record)
                Deltas.mixed(self._rows)
            except NotImplementedError:
                raise
            except Exception as error:
                kind = "" if isinstance(error, VertexError) else f"{type(error).__name__}: "
                raise InputError(f"{place}: {kind}{error}") from error
            rows += self._rows
            places += [place for row in self._rows if row[0] != "send"]
        self._rows = []
        return replace(Deltas.mixed(rows), places=tuple(places))
