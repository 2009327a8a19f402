"""What the suite `state` found, as a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.cells import disturbed
from benchmarks.document import Chart, Document, Section, Series, Table
from benchmarks.state.cells import ABOUT, Cell

Key = tuple[str, int]


def document(result: Mapping[str, Any]) -> Document:
    """Tables of all measures and of the aims, bars of those in milliseconds.

    Args:
        result: "machine", "command", "deltas", "cells" by backend, "missing": why by backend,
            "others": what share of the cores other programs used when it began, and
            "as_stated": whether aims are judged.
    """
    return Document(
        suite="state",
        title="Suite state: what versions cost",
        about="Forks, commits and reads of versioned state on every backend, each beside its "
        "floor: the same bytes by a plain write and fsync, by SET, or by INSERT, in turn with it.",
        command=f"./dev {' '.join(result['command'])}",
        machine=result["machine"],
        warning=disturbed(result["others"], "when it began"),
        sections=[
            Section("What must be reached", "", [_aims(result)]),
            Section("Measures", _median(result), [_measures(result), *_charts(result)]),
        ],
        notes=[
            "Redis is durable after every write (`appendfsync always`), Postgres as it comes; "
            "their servers run on this machine, their data in the directory for temporary files.",
            "LMDB's floor is a plain write and fsync of the same bytes to the same disk.",
        ],
    )


def _median(result: Mapping[str, Any]) -> str:
    missing = [f"- {name}: not available: {why}" for name, why in result["missing"].items()]
    return "\n".join(["Median (least to greatest).", *([""] if missing else []), *missing])


def _keys(result: Mapping[str, Any]) -> list[Key]:
    found = {(c["measure"], c["n"]): None for cells in result["cells"].values() for c in cells}
    return sorted(found, key=lambda key: (list(ABOUT).index(key[0]), key[1]))


def _title(result: Mapping[str, Any], key: Key) -> str:
    deltas = result["deltas"]
    return ABOUT[key[0]].format(n=key[1], deltas=deltas, late=deltas % 64)


def _cell(cells: list[Cell], key: Key) -> Cell | None:
    return next((cell for cell in cells if (cell["measure"], cell["n"]) == key), None)


def _measures(result: Mapping[str, Any]) -> Table:
    rows = []
    for key in _keys(result):
        found = [_cell(cells, key) for cells in result["cells"].values()]
        rows.append([_title(result, key), *(_shown(cell) if cell else "–" for cell in found)])
    return Table(["measure", *result["cells"]], rows)


def _aims(result: Mapping[str, Any]) -> Table:
    rows = []
    for key in _keys(result):
        for name, cells in result["cells"].items():
            cell = _cell(cells, key)
            if cell is None or cell["aim"] is None:
                continue
            sign = "≤" if cell["lower"] else "≥"
            verdict = "reached" if cell["reached"] else "**not reached**"
            verdict = verdict if result["as_stated"] else "stated for other sizes"
            measured = f"{cell['median']:.3g} {cell['unit']}"
            rows.append([
                f"{_title(result, key)}, {name}", measured, f"{sign} {cell['aim']:g}", verdict,
            ])  # fmt: skip
    return Table(["what must be reached", "measured", "aim", ""], rows)


def _charts(result: Mapping[str, Any]) -> list[Chart]:
    charts = []
    for unit, title in (("ms", "Milliseconds"), ("MB/s", "Throughput")):
        keys = [key for key in _keys(result) if _unit(result, key) == unit]
        series = []
        for name, cells in result["cells"].items():
            found = [_cell(cells, key) for key in keys]
            series.append(Series(name, [cell["median"] if cell else None for cell in found]))
        titles = [_title(result, key).replace("*", "") for key in keys]
        if keys:
            charts.append(Chart("bars", title, unit, titles, series, log=True))
    return charts


def _unit(result: Mapping[str, Any], key: Key) -> str:
    every = (_cell(cells, key) for cells in result["cells"].values())
    return str(next(cell["unit"] for cell in every if cell))


def _shown(cell: Cell) -> str:
    low, high = min(cell["values"]), max(cell["values"])
    spread = f" ({low:.3g} to {high:.3g})" if len(cell["values"]) > 1 else ""
    return f"**{cell['median']:.3g}** {cell['unit']}{spread}"
