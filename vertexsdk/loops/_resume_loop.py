"""A main loop as the store has it: begun there, found again, and made to run by another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from vertexsdk.engine.engine import Engine, Orders, Setting
from vertexsdk.engine.select import engine_for
from vertexsdk.errors import InputError
from vertexsdk.graph.checkpoint import stored_graph
from vertexsdk.loops._change_log import ChangeLog
from vertexsdk.loops._ledger import Ledger
from vertexsdk.program.program import Program
from vertexsdk.state import Manifest, SegmentRef, Store
from vertexsdk.state.errors import OwnerError

__all__ = ["Migrate", "check_params", "check_program", "found", "migrate_state", "restore_engine"]

_OWN = ("id", "kind", "name.offsets", "name.bytes")  # no fields of the program

Columns = dict[str, NDArray[Any]]
Migrate = Callable[[Columns], Columns]


def found(store: Store, loop: str) -> tuple[Manifest, Ledger]:
    """The newest version of a main loop, and its ledger.

    Raises:
        StateInputError: there is no such loop.
        InputError: it is no main loop.
    """
    manifest = store.version(loop)
    ledger = Ledger.of(manifest)
    if ledger is None:
        raise InputError(
            f"loop {loop!r} is no main loop: it was written by a run, which keeps no graph; begin "
            "one by MainLoop(program, graph)"
        )
    return manifest, ledger


def check_program(manifest: Manifest, program: Program, *, migrates: bool) -> None:
    """Refuse a program which did not write the version.

    Raises:
        OwnerError: it is another program, or its fields are others: says which.
    """
    if manifest.program != program.name:
        raise OwnerError(
            f"loop {manifest.loop!r} belongs to program {manifest.program}, not to {program.name}: "
            "resume it with that"
        )
    before, now = manifest.schema or {}, _as_stored(program.schema())
    if before == now or migrates:
        return
    said = [f"{n} was added" for n in now if n not in before]
    said += [f"{n} was removed" for n in before if n not in now]
    said += [
        f"{n} was {_type(before[n])}, is {_type(now[n])}"
        for n in now
        if n in before and before[n] != now[n]
    ]
    raise OwnerError(
        f"the fields of {program.name} differ from those of loop {manifest.loop!r}: "
        f"{'; '.join(said)}; give migrate=, a function from the old columns to the new"
    )


def _as_stored(schema: dict[str, Any]) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(json.dumps(schema))
    return found


def _type(said: Mapping[str, Any]) -> str:
    size = said.get("size")
    return f"{said.get('type')}" if size is None else f"{said.get('type')}[{size}]"


def check_params(
    program: Program, params: Mapping[str, Any] | None, ledger: Ledger, loop: str
) -> dict[str, Any]:
    """The parameters which the loop has.

    Raises:
        InputError: others were given; names one.
    """
    kept = program.bind(ledger.params)
    for name, value in program.bind({**ledger.params, **(params or {})}).items():
        if value != kept[name]:
            raise InputError(
                f"loop {loop!r} was begun with {name}={kept[name]!r}, not {value!r}: resume it "
                "with that, or begin another loop"
            )
    return dict(ledger.params)


def restore_engine(
    spark: SparkSession,
    program: Program,
    options: Mapping[str, Any],
    loop: str,
    store: Store,
    manifest: Manifest,
) -> Engine:
    """Return an engine that stands at a version: its graph, and the state by `init`.

    Raises:
        InputError: the program reads edge values, and the stored graph has none.
    """
    ledger = Ledger.of(manifest)
    assert ledger is not None
    if program.value_dtype is not None and program.value_dtype != ledger.value:
        raise InputError(
            f"{program.name} reads {program.value_dtype} edge values, and loop {loop!r} keeps "
            f"{ledger.value or 'none'}: begin the loop again from the edge file"
        )
    graph = stored_graph(
        spark, store, manifest, undirected=ledger.undirected, partitions=manifest.partitions
    )
    nodes = [ref for ref in store.segments(manifest) if ref.group == "nodes"]
    setting = Setting(program, graph, ledger.params, store.backend.address, loop, options, nodes)
    engine = engine_for(setting)
    try:
        sent = program.algebra is None
        log = ChangeLog.replay(store, manifest, sent=sent, undirected=ledger.undirected)
        for changes in log:
            engine.advance(Orders(changes))
    except BaseException:
        engine.close()
        raise
    return engine


def migrate_state(
    store: Store, loop: str, manifest: Manifest, program: Program, migrate: Migrate
) -> Manifest:
    """Commit the state with the columns which a function makes of the old ones.

    Versions before are dropped, as they have other fields.

    Raises:
        InputError: the function's columns are not the program's fields.
    """
    refs: list[SegmentRef] = []
    for partition, columns in store.read(loop, manifest):
        own = {n: x for n, x in columns.items() if n in _OWN}
        old = {n: x for n, x in columns.items() if n not in own}
        new = migrate({"id": columns["id"], **old})
        refs.append(
            store.put_segment(
                loop, partition, manifest.iteration + 1, "base",
                {**own, **_checked(program, new, len(columns["id"]))},
            )
        )  # fmt: skip
    return store.commit(
        loop,
        iteration=manifest.iteration + 1,
        segments=refs,
        content=manifest,
        schema=program.schema(),
        program=program.name,
        aggregates={},
        statistics={**manifest.statistics, "result": program.result},
        offsets=manifest.offsets,
    )


def _checked(program: Program, columns: Mapping[str, Any], rows: int) -> Columns:
    made: Columns = {}
    for name, field in program.states().items():
        if name not in columns:
            raise InputError(f"migrate() returned no column {name!r}; {program.name} has it")
        made[name] = np.asarray(columns[name], field.dtype)
        if made[name].shape != (rows, *field.shape):
            raise InputError(
                f"migrate() returned a column {name!r} of shape {made[name].shape}; "
                f"it must be {(rows, *field.shape)}"
            )
    unknown = sorted(set(columns) - set(made) - {"id"})
    if unknown:
        raise InputError(f"migrate() returned {unknown[0]!r}, which {program.name} has not")
    return made
