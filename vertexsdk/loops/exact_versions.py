"""The exact answer for an earlier version of a main loop, computed by the process that asks.

The version is forked under a name of its own, and the fork is resumed in this process, without
Spark. So the process of the loop need not run, and is not disturbed if it does.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from vertexsdk.errors import InputError
from vertexsdk.loops.arguments import as_program, check_partitions
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.main_loop import MainLoop
from vertexsdk.loops.result import Result
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex
from vertexsdk.state import Manifest, Store, open_store
from vertexsdk.state.address import Address

AnyProgram = type[Vertex] | Program | str | None


def answer_for_version(
    backend: str | Address,
    loop: str,
    at: int | None,
    program: AnyProgram = None,
    *,
    trusted: bool = False,
    timeout: float | None = None,
) -> Result:
    """Return the exact answer for the graph of a version; of it nothing else stays in the store.

    Args:
        at: the newest version at or before this iteration; None for the newest.
        program: the loop's program; by default the built-in one of the name that the store has.
        backend, loop, trusted, timeout: as for `read`.

    Raises:
        InputError: it is not a main loop, or its program is not a built-in one and not given.
    """
    with open_store(backend, create=False) as store:
        chosen = _program_of(store.version(loop, at), program)
        name = f"{loop}-at-{uuid.uuid4().hex[:12]}"
        store.fork(loop, name, at)
        try:
            options: dict[str, Any] = {"backend": backend, "loop": name, "trusted": trusted}
            with MainLoop.resume(None, chosen, **options, progress=False) as main:
                branch = main.fork()
                try:
                    answer = branch.start(timeout=timeout).result()
                finally:
                    branch.close(forget=True)
        finally:
            store.delete(name)
    answer.loop = loop  # what messages call it
    return answer


def store_answer(
    backend: str | Address, loop: str, program: AnyProgram = None, *, trusted: bool = False
) -> None:
    """Have the newest version of a main loop that no process has open be one with an exact answer.

    Args:
        backend, loop, trusted: as for `read`.
        program: as for `answer_for_version`.
    """
    with open_store(backend, create=False) as store:
        chosen = _program_of(store.version(loop), program)
        options: dict[str, Any] = {"backend": backend, "loop": loop, "trusted": trusted}
        with MainLoop.resume(None, chosen, **options, progress=False) as main:
            answer = main.query(persist=True)
            answer.close()
        store.delete(answer.loop)


def _program_of(manifest: Manifest, program: AnyProgram) -> Program:
    from vertexsdk.algorithms import ALGORITHMS

    ledger = Ledger.read(manifest)
    if program is None and ledger.built_in:  # its name is that of the class, if that was given
        classes = {cls.__name__.lower(): cls for cls in ALGORITHMS.values()}
        program = Program((classes | ALGORITHMS)[str(manifest.program)], name=manifest.program)
    if program is None:
        raise InputError(
            f"loop {manifest.loop!r} is of program {manifest.program}, which is not a built-in "
            "one: give program='path.py:Class'"
        )
    return as_program(program)


# `vertexsdk state rescale`: have a main loop continue with another number of partitions.
#
# A snapshot is read by any number of partitions, each of which takes its own vertices. So only a
# version with the new number is written.


def rescale(store: Store, loop: str, partitions: int) -> int:
    """Commit a version of a main loop that is resumed with so many partitions.

    Args:
        loop: the loop's name; a process that owns it gets a `FencedError`.

    Returns:
        The number that it had before.

    Raises:
        StateInputError: no such loop.
        InputError: it is not a main loop, or the number is below 1.
    """
    check_partitions(partitions)
    ledger = Ledger.read(store.version(loop))
    store.claim(loop)
    manifest = store.version(loop)  # its owner may have committed since
    ledger = Ledger.read(manifest)
    previous = ledger.partitions or manifest.partitions
    store.commit(
        loop,
        iteration=manifest.iteration + 1,
        segments=[],
        parent=manifest,
        aggregates=manifest.aggregates,
        statistics={**manifest.statistics, **replace(ledger, partitions=partitions).statistics()},
        offsets=manifest.offsets,
    )
    return previous
