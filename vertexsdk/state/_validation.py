"""What may be a loop's name and a segment's rows on every backend, and who may write a loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.errors import StateError
from vertexsdk.state.contract import LONGEST_NAME
from vertexsdk.state.errors import OwnerError, StateInputError
from vertexsdk.state.manifests import Manifest


def check_name(loop: str) -> None:
    """Refuse what cannot be a loop's name on every backend.

    Raises:
        StateInputError: it is empty, longer than 200 bytes of UTF-8, or has control characters.
    """
    try:
        size = len(loop.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= LONGEST_NAME or any(ord(c) < 32 or ord(c) == 127 for c in loop):
        raise StateInputError(
            f"{loop[:40]!r} cannot name a loop: use 1 to {LONGEST_NAME} bytes of UTF-8 without "
            "control characters"
        )


def check_rows(columns: Mapping[str, Column]) -> None:
    """Refuse columns that are no base or delta.

    Raises:
        StateError: no "id" of int64, or an id twice; or a column of another length.
    """
    if "id" not in columns or columns["id"].dtype.str != "<i8" or columns["id"].ndim != 1:
        raise StateError('a base or delta segment needs a column "id" of int64')
    ids = columns["id"]
    if not (ids[1:] > ids[:-1]).all() and np.unique(ids).size < ids.size:
        raise StateError('the column "id" of a segment has an id twice')
    for name, array in columns.items():
        if not name.startswith("name.") and len(array) != len(ids):
            raise StateError(f"column {name!r} has {len(array)} rows for {len(ids)} ids")


def check_owner(manifest: Manifest, program: str | None, schema: Any, place: str) -> None:
    """Refuse to write a loop of another program; None for either is not compared.

    Raises:
        OwnerError: the newest version is of another program, or has other fields.
    """
    loop, now = manifest.loop, json.loads(json.dumps(schema))
    advice = "choose another loop name or --backend, or delete the loop first"
    if None not in (program, manifest.program) and program != manifest.program:
        raise OwnerError(
            f"loop {loop!r} in {place} belongs to program {manifest.program}, not to "
            f"{program}: {advice}"
        )
    if None not in (schema, manifest.schema) and now != manifest.schema:
        raise OwnerError(
            f"loop {loop!r} in {place} was written with other state fields "
            f"({manifest.schema}, now {now}): {advice}"
        )
