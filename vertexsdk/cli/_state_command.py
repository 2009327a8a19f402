"""`vertexsdk state ls | show | fork | diff | gc | verify | copy`: a store looked at and tended.

Each command prints lines for a person, or with `--json` one JSON value for a program.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from vertexsdk.errors import InputError
from vertexsdk.state import Manifest, Store, open_store
from vertexsdk.state.default_url import chosen_backend

__all__ = ["add_commands"]

Output = tuple[Any, list[str]]  # what --json prints; the lines for a person
_SHOWN = 10  # ids of a difference


def add_commands(commands: Any) -> argparse.ArgumentParser:
    """Add `state` and its commands to a parser's subparsers; each sets `command`.

    `command(given)` runs it, prints, and returns the exit status: 0; 1 where `verify` found
    something missing or corrupt.
    """
    state: argparse.ArgumentParser = commands.add_parser(
        "state", help="look at the versions in a store, fork, compare, copy and tend them"
    )
    some = state.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, work: Callable[[Store, argparse.Namespace], Output], about: str) -> Any:
        one = some.add_parser(name, help=about, description=about, allow_abbrev=False)
        one.add_argument(
            "--backend",
            metavar="URL",
            help="lmdb:///path, redis://host:port/db, postgresql://host/database; or @FILE with it",
        )
        one.add_argument("--json", action="store_true", help="print one JSON value")
        one.add_argument("--verbose", action="store_true", help="print what happens")
        one.set_defaults(command=lambda given: _run(work, given))
        return one

    add("ls", _ls, "the loops of a store")
    show = add("show", _show, "the versions of a loop, or one of them")
    show.add_argument("loop")
    show.add_argument("--at", type=int, metavar="I", help="the version at or before iteration I")
    fork = add("fork", _fork, "make a new loop that starts at a version of another")
    fork.add_argument("loop")
    fork.add_argument("name")
    fork.add_argument("--at", type=int, metavar="I", help="at or before iteration I")
    diff = add("diff", _diff, "the vertices in which two versions differ")
    diff.add_argument("older", metavar="LOOP[@I]")
    diff.add_argument("newer", metavar="LOOP[@I]")
    gc = add("gc", _gc, "remove what no version needs, and versions that are not to be kept")
    gc.add_argument("--grace", type=float, default=3600.0, metavar="SECONDS", help="default 3600")
    gc.add_argument("--alone", action="store_true", help="nobody else uses the store: any grace")
    gc.add_argument("--loop", help="drop versions of this loop too, all but --keep")
    gc.add_argument("--keep", type=int, default=1, metavar="N", help="newest versions kept: 1")
    gc.add_argument("--compact", action="store_true", help="and compact the loop's newest")
    add("verify", _verify, "read everything; say what is missing, corrupt or unreferenced")
    copy = add("copy", _copy, "copy a loop to another store")
    copy.add_argument("loop")
    copy.add_argument("--to", required=True, metavar="URL", help="the other store; URL or @FILE")
    copy.add_argument("--name", help="what it is called there; the same by default")
    copy.add_argument("--newest", action="store_true", help="only the newest version")
    return state


def _run(work: Callable[[Store, argparse.Namespace], Output], given: argparse.Namespace) -> int:
    store = open_store(chosen_backend(given.backend), create=False)
    try:
        value, lines = work(store, given)
    finally:
        store.close()
    if given.json:
        print(json.dumps(value, sort_keys=True))
    else:
        for line in lines:
            print(line)
    bad = isinstance(value, dict) and (value.get("missing") or value.get("corrupt"))
    return 1 if bad else 0


def _ls(store: Store, given: argparse.Namespace) -> Output:
    found = []
    for loop in store.loops():
        newest = store.version(loop)
        found.append({**_described(store, newest), "loop": loop, "versions": store.versions(loop)})
    size = store.statistics()
    where = {"store": store.backend.location, **size, "durability": store.backend.durability}
    rows = [["loop", "program", "versions", "newest", "vertices", "bytes", "committed"]]
    for one in found:
        sizes = [f"{one['vertices']:,}", f"{one['bytes']:,}"]
        who = [one["loop"], one["program"] or "-"]
        rows.append(
            [*who, str(len(one["versions"])), str(one["iteration"]), *sizes, one["created"]]
        )
    head = f"{where['store']}: {where['bytes']:,} bytes; {where['durability']}"
    return {**where, "loops": found}, [head, *(_table(rows) if found else ["no loops"])]


def _show(store: Store, given: argparse.Namespace) -> Output:
    if given.at is None:
        versions = store.versions(given.loop)
        if not versions:
            raise store.unknown(given.loop)
        found = [_described(store, store.version(given.loop, at)) for at in versions]
        rows = [["iteration", "vertices", "segments", "bytes", "added", "committed"]]
        for one in found:
            sizes = [f"{one[name]:,}" for name in ("vertices", "segments", "bytes", "added")]
            rows.append([str(one["iteration"]), *sizes, one["created"]])
        return {"loop": given.loop, "versions": found}, _table(rows)
    manifest = store.version(given.loop, given.at)
    one = _described(store, manifest)
    one |= {name: getattr(manifest, name) for name in ("schema", "aggregates", "statistics")}
    one |= {"offsets": manifest.offsets, "parent": manifest.parent}
    return one, [f"{name}: {_short(value)}" for name, value in one.items()]


def _fork(store: Store, given: argparse.Namespace) -> Output:
    made = store.fork(given.loop, given.name, given.at)
    value = {"loop": given.name, "from": given.loop, "iteration": made.iteration}
    return value, [f"{given.name} stands at iteration {made.iteration} of {given.loop}"]


def _diff(store: Store, given: argparse.Namespace) -> Output:
    found = store.diff(_version(given.older), _version(given.newer))
    counts = {name: len(getattr(found, name)) for name in ("added", "removed", "changed")}
    lines = []
    for name, count in counts.items():
        ids = getattr(found, name)[:_SHOWN].tolist()
        more = ", ..." if count > _SHOWN else ""
        lines.append(f"{name}: {count:,}" + (f" ({', '.join(map(str, ids))}{more})" if ids else ""))
    lines += [f"  in {name}: {count:,}" for name, count in found.fields.items() if count]
    ids = {name: getattr(found, name).tolist() for name in counts}
    return {**ids, "fields": found.fields}, lines


def _gc(store: Store, given: argparse.Namespace) -> Output:
    dropped: list[int] = []
    if given.keep < 1:
        raise InputError("--keep takes a number from 1: the newest version is always kept")
    if given.loop is None and given.compact:
        raise InputError("--compact needs --loop NAME")
    if given.loop is not None:
        if given.loop not in store.loops():
            raise store.unknown(given.loop)
        if given.compact:
            store.compact(given.loop)
        dropped = store.prune(given.loop, given.keep)
    found = store.collect(given.grace, alone=given.alone)
    value = {**asdict(found), "versions": dropped}
    lines = [f"removed {found.segments:,} segments and {found.manifests:,} manifests"]
    if given.loop is not None:
        lines.append(f"dropped {len(dropped):,} versions of {given.loop}")
    if found.young:
        lines.append(f"spared {found.young:,}, which are younger than {given.grace:g} s")
    return value, lines


def _verify(store: Store, given: argparse.Namespace) -> Output:
    found = store.audit()
    lines = [f"missing: {line}" for line in found.missing]
    lines += [f"corrupt: {line}" for line in found.corrupt]
    lines += [f"unreferenced: {line}" for line in found.unreferenced]
    checked = f"{found.versions:,} versions, {found.segments:,} segments, {found.bytes:,} bytes"
    sound = not found.missing and not found.corrupt
    return asdict(found), [*lines, f"{checked}: {'all sound' if sound else 'DAMAGED'}"]


def _copy(store: Store, given: argparse.Namespace) -> Output:
    target = open_store(given.to)
    try:
        done = store.copy(given.loop, target, given.name, newest=given.newest)
        target.show(given.name or given.loop)
        where = target.backend.location
    finally:
        target.close()
    value = {**asdict(done), "loop": given.name or given.loop, "to": where}
    return value, [
        f"{value['loop']} in {where}: {done.versions:,} versions; copied {done.segments:,} "
        f"segments, {done.bytes:,} bytes"
    ]


def _described(store: Store, manifest: Manifest) -> dict[str, Any]:
    refs = store.segments(manifest)
    bases = [ref for ref in refs if ref.kind == "base"]
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(manifest.created))
    return {
        "iteration": manifest.iteration,
        "program": manifest.program,
        "vertices": sum(ref.rows for ref in bases),
        "partitions": manifest.partitions,
        "segments": len(refs),
        "bytes": sum(ref.bytes for ref in refs),
        "added": sum(ref.bytes for ref in manifest.segments if ref.key.loop == manifest.loop),
        "created": made,
    }


def _version(text: str) -> tuple[str, int | None]:
    loop, at, iteration = text.rpartition("@")
    if at and iteration.isdigit():
        return loop, int(iteration)
    return text, None


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 or not sys.stdout.isatty() else f"{text[:197]}..."
