"""Answers the calls of other processes, as `StatefulClient` makes them.

A request is JSON, {"method": name, "calls": [[argument, ...], ...]}, or {} for the methods. The
answer has an answer for each call, and by number the errors of those that raised. Nothing is
unpickled: an answer that JSON does not have is an error of its call. Bytes are {"#bytes": base64};
a dict whose only key begins with "#" has one more there.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from vertexsdk.errors import CallError, InputError, excerpt
from vertexsdk.program.keyed import ABSENT, KeyedProgram, Row

_MOST = 1 << 16  # calls of a request
_BYTES = "#bytes"


def as_plain(value: Any) -> Any:
    """Return a value in the types that JSON has; tuples become lists, and rows dicts.

    Raises:
        InputError: JSON has no such type.

    >>> as_plain({"a": (1, None)})
    {'a': [1, None]}
    >>> as_plain(b"be")
    {'#bytes': 'YmU='}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [as_plain(one) for one in value]
    if isinstance(value, Row):
        value = value._asdict()
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        tag = "#" if len(value) == 1 and next(iter(value)).startswith("#") else ""
        return {tag + key: as_plain(one) for key, one in value.items()}
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return as_plain(value.tolist())
    raise InputError(
        f"its answer has a {type(value).__name__}, which another process cannot have: return "
        "numbers, strings, bytes, lists, or dicts by strings"
    )


def of_plain(value: Any) -> Any:
    """Return the value that `as_plain` returned in JSON's types.

    Raises:
        InputError: its bytes are not base64.

    >>> of_plain(as_plain([b"be", {"#bytes": 1}]))
    [b'be', {'#bytes': 1}]
    """
    if isinstance(value, list):
        return list(map(of_plain, value))
    if not isinstance(value, dict):
        return value
    if value.keys() == {_BYTES}:
        try:
            return base64.b64decode(value[_BYTES], validate=True)
        except (TypeError, ValueError):
            raise InputError(f"{excerpt(value[_BYTES])} is not base64, as bytes are") from None
    tag = len(value) == 1 and next(iter(value)).startswith("##")
    return {key[tag:]: of_plain(one) for key, one in value.items()}


class CallAnswers:
    """A loop's answers to the requests of other processes.

    Args:
        program: the loop's program.
        submit: has the loop make a call of a method, by its name and arguments.
    """

    def __init__(
        self, program: KeyedProgram, submit: Callable[[str, Sequence[Any]], Future[Any]]
    ) -> None:
        self._program, self._submit = program, submit

    def __call__(self, request: Any) -> Any:
        """Return the answer to a request.

        Raises:
            InputError: it is not a request, or arguments are not those of the method.
            RunError, StateError: calls may have been made or not.
        """
        if request == {}:
            return {"methods": {name: self._described(name) for name in self._program.methods}}
        name = request.get("method") if isinstance(request, dict) else None
        calls = request.get("calls") if isinstance(request, dict) else None
        if (
            not isinstance(name, str)
            or name not in self._program.methods
            or not isinstance(calls, list)
            or not all(isinstance(one, list) for one in calls)
            or len(calls) > _MOST
        ):
            raise InputError(
                'a request is one frame of JSON, {"method": name, "calls": [[argument, ...], ...]}'
            )
        futures = [self._submit(name, arguments) for arguments in of_plain(calls)]
        answers: list[Any] = []
        errors: dict[int, str] = {}
        for number, future in enumerate(futures):
            try:
                answers.append(as_plain(future.result()))
            except (CallError, InputError) as error:
                answers.append(None)
                errors[number] = str(error)
        return {"answers": answers, "errors": errors}

    def _described(self, name: str) -> list[list[Any]]:
        """Return the name and the type of each parameter, and its default, if it has one."""
        parameters = self._program.methods[name].parameters
        described = [
            [p.name, p.kind, p.default][: 2 + (p.default is not ABSENT)] for p in parameters
        ]
        return [as_plain(one) for one in described]
