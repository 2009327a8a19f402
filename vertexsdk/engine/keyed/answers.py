"""Answers of calls as one column, of Python's own types; and calls that raised."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import (
    pack_bytes,
    pack_strings,
    unpack_bytes,
    unpack_strings,
)
from vertexsdk.arrays.raw_columns import decode, encode_bytes, pickled
from vertexsdk.errors import CallError, StateError, excerpt, first_line
from vertexsdk.program.keyed import ABSENT, KINDS, NUMBERS, KeyedMethod, KeyedProgram
from vertexsdk.program.trigger_program import Accumulator, Trigger, TriggerProgram, key_of_text

_PACKAGE = str(Path(__file__).parents[2])  # whose frames are of no use to a user
_DTYPES: dict[Any, Any] = {KINDS[kind]: dtype for kind, dtype in NUMBERS.items()}
_PLAIN = {*KINDS.values(), type(None)}
_KINDS: tuple[tuple[str, Any], ...] = (
    ("none", None), ("whole", np.int64), ("real", np.float64), ("whole", np.bool_), ("none", ()),
    ("none", ABSENT),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnswerColumn(Sequence[Any]):
    """Answers that kernels wrote.

    Attributes:
        kinds: uint8[n]: of each answer: None, an int, a float, a bool, (), or `ABSENT`.
        whole: int64[n], the ints and bools.
        real: float64[n], the floats.

    Example:
        >>> kinds = np.array([0, 1, 2, 3], np.uint8)
        >>> AnswerColumn(kinds, np.array([0, 7, 0, 1]), np.array([0, 0, 0.5, 0])).values()
        [None, 7, 0.5, True]
    """

    kinds: NDArray[np.uint8]
    whole: NDArray[np.int64]
    real: NDArray[np.float64]

    @classmethod
    def empty(cls, n: int) -> AnswerColumn:
        """Return room for n answers."""
        return cls(np.zeros(n, np.uint8), np.zeros(n, np.int64), np.zeros(n, np.float64))

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the three arrays."""
        return self.kinds, self.whole, self.real

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, place: Any) -> Any:
        return self.values()[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def values(self) -> list[Any]:
        """Return the answers as Python values."""
        present = different(self.kinds)
        answers: NDArray[Any] = np.empty(len(self.kinds), object)  # all None
        for kind in present:
            name, of = _KINDS[kind]
            alone = len(present) == 1
            column = self.whole if name == "whole" else self.real
            if alone:
                return [of] * len(column) if name == "none" else column.astype(of).tolist()
            rows = np.flatnonzero(self.kinds == kind)
            if name != "none":
                answers[rows] = column[rows].astype(of)
            elif of is not None:
                for place in rows.tolist():
                    answers[place] = of
        return answers.tolist()  # type: ignore[no-any-return]

    def put(self, places: NDArray[np.int64], part: AnswerColumn) -> None:
        """Set the answers at places to those of a part."""
        for column, values in zip(self.arrays(), part.arrays(), strict=True):
            column[places] = values


def different(numbers: NDArray[Any]) -> list[int]:
    """Return the different ones of small numbers, ascending.

    >>> different(np.array([2, 0, 2], np.uint8))
    [0, 2]
    """
    if len(numbers) and (numbers == numbers[0]).all():  # as they are most often
        return [int(numbers[0])]
    present: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return present


@dataclass(frozen=True)
class Failure:
    """A call that raised.

    Attributes:
        number: number of the call in its block.
        position: the item of its loop.
        text: what its caller is told.
        frames: file, line and function of each call in the user's files.
    """

    number: int
    position: int
    text: str
    frames: tuple[tuple[str, int, str], ...] = ()

    def error(self) -> CallError:
        """Return what is raised to the caller."""
        error = CallError(self.text)
        error.user_frames = self.frames
        return error


def failure(
    program: KeyedProgram, method: KeyedMethod, number: int, position: int, error: BaseException
) -> Failure:
    """Return the failure of a call, with the user's line."""
    name = f"{program.name}.{method.name}"
    return _failure(name, method.file, method.line, number, position, error)


def trigger_failure(
    program: TriggerProgram,
    running: tuple[Trigger, Any] | None,
    number: int,
    error: BaseException,
) -> Failure:
    """Return the failure of a call that a trigger has raised, with the user's line.

    Args:
        running: the trigger, and the key of the row that it ran for; None before any has run.
        number: number of the call.
    """
    if running is None:
        return Failure(number, 0, f"{program.name}: {_text(error)}")
    trigger, key = running
    key = key_of_text(key) if isinstance(trigger, Accumulator) else key
    name = f"{program.full_name(trigger)}, row {excerpt(key)}"
    return _failure(name, trigger.file, trigger.line, number, 0, error)


def _failure(
    name: str, file: str, line: int, number: int, position: int, error: BaseException
) -> Failure:
    frames = tuple(
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == file or not frame.f_code.co_filename.startswith(_PACKAGE)
    )
    places = [f"{of}:{at}: " for of, at, _ in frames if of == file]
    said = ": ".join(filter(None, (type(error).__name__, _text(error))))
    place = places[-1] if places else f"{file}:{line}: "
    return Failure(number, position, f"{place}{name}: {said}", frames)


def is_interrupt(error: BaseException) -> bool:
    """Return whether Ctrl-C or a signal ends the process, not just the method as sys.exit()."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    in_method = bool(frames) and not frames[-1].f_code.co_filename.startswith(_PACKAGE)
    return not (isinstance(error, Exception) or in_method) or isinstance(error, KeyboardInterrupt)


def _text(error: BaseException) -> str:
    """Return the first line of an error's text, "" where it has none or cannot make it."""
    try:
        return first_line(error) if str(error) else ""
    except Exception:  # of the user's __str__
        return ""


def encode_answers(
    numbers: NDArray[np.int64] | None, answers: Sequence[Any], failures: Sequence[Failure]
) -> bytes:
    """Return a partition's report on a block.

    Args:
        numbers: numbers of the calls (int64[n]); None where they are 0, 1, ...
        answers: the answer of each call.
        failures: the calls that raised.
    """
    failures = list(failures)
    columns: dict[str, NDArray[Any]] = {} if numbers is None else {"number": numbers}
    columnar = isinstance(answers, AnswerColumn)
    kinds = {AnswerColumn} if columnar else set(map(type, answers))
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    shown = "none"
    if kind is int and not -(1 << 63) <= min(answers) <= max(answers) < 1 << 63:
        kind = None
    if isinstance(answers, AnswerColumn):
        columns["kinds"], columns["whole"], columns["real"] = answers.arrays()
        shown = "columns"
    elif kind in _DTYPES:
        columns["answer"], shown = np.fromiter(answers, _DTYPES[kind], len(answers)), "numbers"
    elif kind is str:
        columns["offsets"], columns["bytes"] = pack_strings(answers)
        shown = "strings"
    elif kind is bytes:
        columns["offsets"], columns["bytes"] = pack_bytes(answers)
        shown = "bytes"
    elif kind is not type(None) and len(answers):
        columns["answer"], shown = _pickles(numbers, answers, failures), "pickles"
    meta = {"kind": shown, "count": len(answers)}
    columns["failures"] = np.frombuffer(pickle.dumps(failures), np.uint8)
    return encode_bytes(columns, meta)


def _pickles(
    numbers: NDArray[np.int64] | None, answers: Sequence[Any], failures: list[Failure]
) -> NDArray[np.uint8]:
    advice = ": return numbers, strings, lists or dicts of them; what the call changed is kept"
    try:
        data = _pickled(list(answers), "the answers", advice)
    except StateError:
        kept = list(answers)
        for k, answer in enumerate(kept):
            try:
                _pickled(answer, f"an answer of type {type(answer).__name__}", advice)
            except StateError as error:
                number = k if numbers is None else int(numbers[k])
                failures.append(Failure(number, 0, str(error)))
                kept[k] = None
        data = pickled(kept, "the answers", advice)
    return np.frombuffer(data, np.uint8)


def _pickled(value: Any, what: str, advice: str) -> bytes:
    """As `pickled`, for a value that the driver can also read: many exceptions can only be written.

    Raises:
        StateError: it cannot be written, or not read.
    """
    data = pickled(value, what, advice)
    if not (isinstance(value, list) and set(map(type, value)) <= _PLAIN):
        try:
            pickle.loads(data)
        except Exception as error:
            raise StateError(f"{what} cannot be unpickled ({_text(error)}){advice}") from error
    return data


def decode_answers(
    report: bytes,
) -> tuple[NDArray[np.int64] | None, Sequence[Any], list[Failure]]:
    """Return what `encode_answers` was given."""
    columns, meta = decode(report)
    kind = meta["kind"]
    answers: Sequence[Any] = [None] * meta["count"]
    if kind == "columns":
        answers = AnswerColumn(columns["kinds"], columns["whole"], columns["real"])
    elif kind == "numbers":
        answers = columns["answer"].tolist()
    elif kind == "strings":
        answers = unpack_strings(columns["offsets"], columns["bytes"])
    elif kind == "bytes":
        answers = unpack_bytes(columns["offsets"], columns["bytes"])
    elif kind == "pickles":
        answers = pickle.loads(columns["answer"].tobytes())
    return columns.get("number"), answers, pickle.loads(columns["failures"].tobytes())
