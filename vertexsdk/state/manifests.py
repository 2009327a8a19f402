"""The manifest of a version: its segments, and what the driver stores with them.

A manifest lists the segments that its own commit added. The segments of a version are listed by
following the chain of parents, at most `MAX_CHAIN` of them: the next manifest lists all segments
(`complete`). So the commit of a small delta stays small, however many versions precede it.

Which earlier segments a commit replaces follows from their kinds (`live_segments`): a base replaces
the base and the deltas of its partition and group, and a topology those of its group in all
partitions. Changes of the graph stay, in order, until there is a topology of group "": a commit
that adds one lists the changes that came after it. Those of group "tail" stay until changes of
group "" include them. A snapshot of group "all" replaces all snapshots, one of group "" those of
its partition, and one of group "delta" is laid over them; those of group "names" belong to the
whole loop. A base of a partition that there is no longer is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args
from zlib import crc32

from vertexsdk.arrays.corruption import CorruptError, damaged
from vertexsdk.state.contract import Backend, Head, NewManifest, SegmentKey
from vertexsdk.state.errors import OwnerError
from vertexsdk.state.stored_columns import accepted_values

Kind: TypeAlias = Literal["base", "delta", "topology", "changes", "snapshot"]
KINDS: tuple[str, ...] = get_args(Kind)
MAX_CHAIN = 16
_SEGMENT = [str, int, int, str, str, str, int, int, str]  # types of the fields of `SegmentRef`
_TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,), "loop": (str,), "iteration": (int,), "parent": (str, type(None)),
    "partitions": (int,), "ids": (str,), "program": (str, type(None)), "aggregates": (dict,),
    "statistics": (dict,), "offsets": (dict,), "complete": (bool,), "depth": (int,),
    "created": (int, float),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """A reference to a stored segment: what `Store.put_segment` returns and a manifest lists.

    Attributes:
        kind: "base", "delta", "topology", "changes" or "snapshot".
        group: distinguishes segments of one partition and kind, such as the states of two vertex
            classes; "" when there is only one.
        rows: length of the "id" column, or of the first.
        bytes: encoded size, in bytes.
        schema: hash of names and types of the columns.
    """

    key: SegmentKey
    kind: Kind
    group: str
    rows: int
    bytes: int
    schema: str

    def to_json(self) -> list[Any]:
        """A list of strings and integers, which `from_json` reads."""
        k = self.key
        place = [k.loop, k.partition, k.iteration, k.attempt]
        return [*place, self.kind, self.group, self.rows, self.bytes, self.schema]

    @classmethod
    def from_json(cls, fields: list[Any]) -> SegmentRef:
        """The reference that `to_json` encoded."""
        if [type(x) for x in fields] != _SEGMENT:
            raise TypeError("a segment is not named by strings and integers")
        return cls(SegmentKey(*fields[:4]), *fields[4:])


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """A segment that is encoded, but not in the store yet.

    Attributes:
        ref: the reference to it, once `Store.put` has stored it.
        pieces: the bytes, to be concatenated.
    """

    ref: SegmentRef
    pieces: tuple[bytes | memoryview, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return EncodedSegment, (self.ref, (b"".join(self.pieces),))


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed version of a loop.

    Attributes:
        name: its name in the store.
        loop: the loop that committed it; a fork shares the manifests of its origin.
        iteration: the iteration whose end this is.
        parent: name of the version it was built on, or None.
        partitions: number of partitions P; vertex v is in partition `hash_partition(v, P)`, but
            for a graph that was placed otherwise, and in older stores.
        ids: "int", or "str" when the vertices have names.
        program: the name of the program that wrote it.
        schema: the state's fields and types as the program declares them; anything JSON.
        aggregates: the program's aggregates.
        statistics: the run's statistics.
        offsets: the offsets of the run's sources.
        segments: those added by this commit; all of the version if `complete`.
        depth: manifests to walk to a complete one.
        created: seconds since 1970.
    """

    name: str
    loop: str
    iteration: int
    parent: str | None
    partitions: int
    ids: str
    program: str | None
    schema: Any
    aggregates: dict[str, Any]
    statistics: dict[str, Any]
    offsets: dict[str, Any]
    segments: tuple[SegmentRef, ...]
    complete: bool
    depth: int
    created: float = field(compare=False)

    @property
    def below(self) -> str | None:
        """The name of the manifest whose version has the other segments of this one, or None."""
        return None if self.complete else self.parent

    @property
    def state_fields(self) -> dict[str, dict[str, Any]]:
        """The schema of a program's state: what is declared of each field; {} without one.

        Raises:
            CorruptError: it is something else.
        """
        entries = self.schema or {}
        if not isinstance(entries, dict) or not all(isinstance(x, dict) for x in entries.values()):
            raise CorruptError(f"the schema of version {self.iteration} of loop {self.loop!r} is "
                               "not that of a state")  # fmt: skip
        return entries

    @property
    def references(self) -> list[str]:
        """The names that must be kept as long as this is: attempts of its segments, and `below`."""
        return [*(ref.key.attempt for ref in self.segments), *filter(None, [self.below])]

    def is_compacted(self, other: Manifest) -> bool:
        """Return whether this is the version `other`, compacted; both are of one loop."""
        mine = self.parent, self.iteration, self.created
        return mine == (other.parent, other.iteration, other.created)

    def encode(self) -> bytes:
        """JSON in UTF-8 after its CRC, which `decode` reads."""
        record = {name: getattr(self, name) for name in self.__slots__}
        record["segments"] = [ref.to_json() for ref in self.segments]
        body = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode()
        return b"%08x" % crc32(body) + body

    @classmethod
    def decode(cls, name: str, data: bytes) -> Manifest:
        """The manifest.

        Raises:
            CorruptError: the bytes are not those that were written.
        """
        if data[:8] != b"%08x" % crc32(data[8:]):
            raise CorruptError(f"manifest {name} fails its checksum: the stored bytes have changed")
        with damaged(f"manifest {name}"):
            record = json.loads(data[8:])
            record["segments"] = tuple(map(SegmentRef.from_json, record["segments"]))
            accepted_values(record, _TYPES)
            return cls(**record)

    def check_owner(self, program: str | None, schema: Any, place: str) -> None:
        """Refuse to write the loop of another program; None for either is not compared.

        Raises:
            OwnerError: this version is of another program, or has other fields.
        """
        now = json.loads(json.dumps(schema))
        advice = "choose another loop= or backend=, or delete the loop first"
        if None not in (program, self.program) and program != self.program:
            raise OwnerError(
                f"loop {self.loop!r} in {place} belongs to program {self.program}, not to "
                f"{program}: {advice}"
            )
        if None not in (schema, self.schema) and now != self.schema:
            raise OwnerError(
                f"loop {self.loop!r} in {place} was written with other state fields "
                f"({field_differences(self.schema, now)}): {advice}"
            )

    def publish(
        self,
        backend: Backend,
        loop: str,
        expected: Head | None,
        head: Head,
        requires: Iterable[SegmentRef],
        put: Iterable[EncodedSegment] = (),
        *,
        restart: bool = False,
    ) -> bool:
        """Store this, and make it the newest version of a loop.

        Args:
            requires: segments that must be in the store, but for those in `put`.
            put: segments that are stored with it.
        """
        new = {segment.ref.key: segment.pieces for segment in put}
        keys = [ref.key for ref in requires if ref.key not in new]
        manifest = NewManifest(
            self.name, self.encode(), self.references, keys, list(new.items()), restart
        )
        return backend.swap_head(loop, expected, head, manifest)


def field_differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return how the fields of a program differ from those of a version, in one line.

    Args:
        stored: the fields of the version, by name.
        now: those of the program.

    >>> old, new = {"type": "int", "element": "a"}, {"type": "float", "element": "a"}
    >>> field_differences({"x": old, "y": old}, {"x": new, "z": old})
    'z was added; y was removed; x was int, is float'
    """
    stored, now = (
        {name: one if isinstance(one, dict) else {"type": one} for name, one in fields.items()}
        for fields in (stored, now)
    )
    elements = [{one.get("element") for one in fields.values()} for fields in (stored, now)]
    apart = elements[0] ^ elements[1]

    def names(fields: Mapping[str, Any], other: Mapping[str, Any], k: int) -> list[str]:
        of_both = [n for n, one in fields.items() if one.get("element") not in apart]
        return [*sorted(map(str, elements[k] & apart)), *(n for n in of_both if n not in other)]

    differences = [f"{name} was added" for name in names(now, stored, 1)]
    differences += [f"{name} was removed" for name in names(stored, now, 0)]
    for name in now:
        if name in stored and stored[name] != now[name]:
            was, is_now = _types(stored[name], now[name])
            differences.append(f"{name} was {was}, is {is_now}")
    return "; ".join(differences) or "in another order"


def _types(*fields: Mapping[str, Any]) -> list[str]:
    """Return the types of fields; where these are the same, what else differs."""
    sizes = [one.get("size") for one in fields]
    types = [
        f"{one.get('type')}" + ("" if size is None else f"[{size}]")
        for one, size in zip(fields, sizes, strict=True)
    ]
    if len(set(types)) == 1:
        keys = sorted({key for one in fields for key in one})
        key = next(key for key in keys if len({str(one.get(key)) for one in fields}) > 1)
        types = [f"{key} {one.get(key)}" for one in fields]
    return types


def live_segments(
    existing: Iterable[SegmentRef], added: Iterable[SegmentRef], partitions: int
) -> list[SegmentRef]:
    """The segments of a version that adds `added` to a version with segments `existing`.

    Args:
        partitions: the version's number of partitions; a state of more of them is rewritten.
    """
    new = list(added)
    places = {(ref.kind, ref.key.partition, ref.group) for ref in new}
    graphs = {ref.group for ref in new if ref.kind == "topology"}
    all_replaced = any((ref.kind, ref.group) == ("snapshot", "all") for ref in new)

    def stays(ref: SegmentRef) -> bool:
        place = (ref.key.partition, ref.group)
        if ref.kind == "topology":
            return ref.group not in graphs
        if ref.kind == "changes":
            joined = bool(ref.group) and ("changes", place[0], "") in places
            return not joined and "" not in graphs
        if ref.kind == "snapshot":
            replaced = ref.group != "names" and ("snapshot", place[0], "") in places
            return not all_replaced and not replaced
        return place[0] < partitions and ("base", *place) not in places

    return [*filter(stays, existing), *new]


def layers_by_partition(
    refs: Iterable[SegmentRef],
) -> list[tuple[tuple[int, str], list[SegmentRef]]]:
    """The base and deltas of each `(partition, group)`, ascending; within one, oldest first."""
    layers: dict[tuple[int, str], list[SegmentRef]] = {}
    for ref in refs:
        if ref.kind in ("base", "delta"):
            layers.setdefault((ref.key.partition, ref.group), []).append(ref)
    return sorted(layers.items(), key=lambda item: item[0])
