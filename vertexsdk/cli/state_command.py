"""`vertexsdk state ls | show | fork | diff | gc | verify | copy | rescale`.

They maintain a store. Each command prints lines for a person, or with `--json` one JSON value for a
program.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from vertexsdk.backends import open_backend
from vertexsdk.errors import InputError
from vertexsdk.state import Manifest, Store, open_store
from vertexsdk.state.address import address_or_default

Output = tuple[Any, list[str]]  # the value that --json prints, and the lines for a person
_SHOWN = 10  # ids of a difference


def add_commands(commands: Any) -> None:
    """Add `state` and its commands to a parser's subparsers; each sets `command`.

    `command(args)` runs it, prints, and returns the exit status: 0; 1 where `verify` found
    something missing or corrupt.
    """
    state = commands.add_parser(
        "state", help="list, fork, compare, copy and maintain the versions in a store"
    )
    subparsers = state.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, work: Callable[[Store, argparse.Namespace], Output], about: str) -> Any:
        command = subparsers.add_parser(name, help=about, description=about, allow_abbrev=False)
        command.add_argument(
            "--backend",
            metavar="URL",
            help="lmdb:///path, redis://host:port/db, postgresql://host/database; or @FILE with it",
        )
        command.add_argument("--json", action="store_true", help="print one JSON value")
        command.add_argument("--verbose", action="store_true", help="log progress")
        command.set_defaults(command=lambda args: _run(work, args))
        return command

    add("ls", _ls, "the loops of a store")
    show = add("show", _show, "the versions of a loop, or one of them")
    show.add_argument("loop")
    show.add_argument("--at", type=int, metavar="I", help="the version at or before iteration I")
    fork = add("fork", _fork, "make a new loop that starts at a version of another")
    fork.add_argument("loop")
    fork.add_argument("name")
    fork.add_argument("--at", type=int, metavar="I", help="at or before iteration I")
    fork.add_argument(
        "--program",
        metavar="PROGRAM",
        help="of a main loop, if not a built-in: computes the answer where the version has none",
    )
    diff = add("diff", _diff, "the vertices in which two versions differ")
    diff.add_argument("older", metavar="LOOP[@I]")
    diff.add_argument("newer", metavar="LOOP[@I]")
    gc = add("gc", _gc, "remove what no version needs; with --loop, old versions too")
    gc.add_argument("--grace", type=float, default=3600.0, metavar="SECONDS", help="default 3600")
    gc.add_argument(
        "--alone", action="store_true", help="no other process uses the store: allow any --grace"
    )
    gc.add_argument("--loop", help="drop versions of this loop too, all but --keep")
    gc.add_argument("--keep", type=int, default=1, metavar="N", help="newest versions kept: 1")
    gc.add_argument("--compact", action="store_true", help="and compact the loop's newest")
    add("verify", _verify, "read everything, and report what is missing, corrupt or unreferenced")
    copy = add("copy", _copy, "copy a loop to another store")
    copy.add_argument("loop")
    copy.add_argument("--to", required=True, metavar="URL", help="the other store; URL or @FILE")
    copy.add_argument("--name", help="its name there (default: the same)")
    copy.add_argument("--newest", action="store_true", help="only the newest version")
    rescale = add("rescale", _rescale, "have a main loop continue with other partitions")
    rescale.add_argument("loop")
    rescale.add_argument("--partitions", type=int, required=True, metavar="N", help="how many")


def _run(work: Callable[[Store, argparse.Namespace], Output], args: argparse.Namespace) -> int:
    address = address_or_default(args.backend)
    with Store(open_backend(address, create=False)) as store:
        value, lines = work(store, args)
    print(json.dumps(value, sort_keys=True) if args.json else "\n".join(lines))
    bad = isinstance(value, dict) and (value.get("missing") or value.get("corrupt"))
    return 1 if bad else 0


def _ls(store: Store, args: argparse.Namespace) -> Output:
    loops = []
    rows = [["loop", "program", "versions", "newest", "vertices", "bytes", "committed"]]
    for loop in store.loops():
        newest, versions = _described(store, store.version(loop)), store.versions(loop)
        loops.append({**newest, "loop": loop, "versions": versions})
        counts = [str(len(versions)), str(newest["iteration"])]
        counts += [f"{newest[name]:,}" for name in ("vertices", "bytes")]
        rows.append([loop, newest["program"] or "-", *counts, newest["created"]])
    backend = store.backend
    place, size, durability = backend.location, backend.size(), backend.durability
    value = {"store": place, "bytes": size, "durability": durability, "loops": loops}
    head = f"{place}: {size:,} bytes; {durability}"
    return value, [head, *(_table(rows) if loops else ["no loops"])]


def _show(store: Store, args: argparse.Namespace) -> Output:
    if args.at is None:
        versions = store.versions(args.loop)
        if not versions:
            raise store.unknown_loop(args.loop)
        described = [_described(store, store.version(args.loop, at)) for at in versions]
        sizes = ("vertices", "segments", "bytes", "added")
        rows = [["iteration", *sizes, "committed"]]
        for version in described:
            counts = [f"{version[name]:,}" for name in sizes]
            rows.append([str(version["iteration"]), *counts, version["created"]])
        return {"loop": args.loop, "versions": described}, _table(rows)
    manifest = store.version(args.loop, args.at)
    version = _described(store, manifest)
    for name in ("schema", "aggregates", "statistics", "offsets", "parent"):
        version[name] = getattr(manifest, name)
    return version, [f"{name}: {_short(value)}" for name, value in version.items()]


def _fork(store: Store, args: argparse.Namespace) -> Output:
    manifest = store.fork(args.loop, args.name, args.at)
    value = {"loop": args.name, "from": args.loop, "iteration": manifest.iteration}
    lines = [f"{args.name} starts at iteration {manifest.iteration} of {args.loop}"]
    main = manifest.statistics.get("main")
    if main is not None and not main.get("state"):  # changes were stored, and no query answered
        from vertexsdk.loops.exact_versions import store_answer  # what it imports takes long

        try:
            store_answer(store.backend.address, args.name, args.program)
        except BaseException:
            store.delete(args.name)
            raise
        value["answer"] = store.version(args.name).iteration
        lines.append(f"its answer was computed: {args.name} is at iteration {value['answer']}")
    return value, lines


def _diff(store: Store, args: argparse.Namespace) -> Output:
    difference = store.diff(_version(args.older), _version(args.newer))
    counts = {name: len(getattr(difference, name)) for name in ("added", "removed", "changed")}
    lines = []
    for name, count in counts.items():
        ids = getattr(difference, name)[:_SHOWN].tolist()
        more = ", ..." if count > _SHOWN else ""
        lines.append(f"{name}: {count:,}" + (f" ({', '.join(map(str, ids))}{more})" if ids else ""))
    lines += [f"  in {name}: {count:,}" for name, count in difference.fields.items() if count]
    ids = {name: getattr(difference, name).tolist() for name in counts}
    return {**ids, "fields": difference.fields}, lines


def _gc(store: Store, args: argparse.Namespace) -> Output:
    dropped: list[int] = []
    if args.keep < 1:
        raise InputError("--keep takes a number from 1: the newest version is always kept")
    if args.loop is None and args.compact:
        raise InputError("--compact needs --loop NAME")
    if args.loop is not None:
        if args.loop not in store.loops():
            raise store.unknown_loop(args.loop)
        if args.compact:
            store.compact(args.loop)
        dropped = store.prune(args.loop, args.keep)
    collected = store.collect(args.grace, alone=args.alone)
    value = {**asdict(collected), "versions": dropped}
    lines = [f"removed {collected.segments:,} segments and {collected.manifests:,} manifests"]
    if args.loop is not None:
        lines.append(f"dropped {len(dropped):,} versions of {args.loop}")
    if collected.young:
        lines.append(f"spared {collected.young:,}, which are younger than {args.grace:g} s")
    return value, lines


def _verify(store: Store, args: argparse.Namespace) -> Output:
    report = store.audit()
    lines = [f"missing: {line}" for line in report.missing]
    lines += [f"corrupt: {line}" for line in report.corrupt]
    lines += [f"unreferenced: {line}" for line in report.unreferenced]
    checked = f"{report.versions:,} versions, {report.segments:,} segments, {report.bytes:,} bytes"
    sound = not report.missing and not report.corrupt
    return asdict(report), [*lines, f"{checked}: {'all sound' if sound else 'DAMAGED'}"]


def _copy(store: Store, args: argparse.Namespace) -> Output:
    name = args.name or args.loop
    with open_store(args.to) as target:
        copied = store.copy(args.loop, target, name, newest=args.newest)
        target.show(name)
    where = target.backend.location
    line = f"{name} in {where}: {copied.versions:,} versions; copied {copied.segments:,} segments, "
    return {**asdict(copied), "loop": name, "to": where}, [f"{line}{copied.bytes:,} bytes"]


def _rescale(store: Store, args: argparse.Namespace) -> Output:
    from vertexsdk.loops.exact_versions import rescale  # what it imports takes long

    previous = rescale(store, args.loop, args.partitions)
    value = {"loop": args.loop, "partitions": args.partitions, "before": previous}
    line = f"{args.loop} had {previous} partitions; when resumed it has {args.partitions}"
    return value, [line]


def _described(store: Store, manifest: Manifest) -> dict[str, Any]:
    refs = store.segments(manifest)
    bases = [ref for ref in refs if ref.kind == "base"]
    created = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(manifest.created))
    return {
        "iteration": manifest.iteration,
        "program": manifest.program,
        "vertices": sum(ref.rows for ref in bases),
        "partitions": manifest.partitions,
        "segments": len(refs),
        "bytes": sum(ref.bytes for ref in refs),
        "added": sum(ref.bytes for ref in manifest.segments if ref.key.loop == manifest.loop),
        "created": created,
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
