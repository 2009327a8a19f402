"""`StatefulClient`: calls a stateful class whose loop another process has open."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from vertexsdk.engine.keyed.calls import python_values
from vertexsdk.errors import CallError, InputError
from vertexsdk.loops.request_client import RequestClient
from vertexsdk.program.keyed import ABSENT, KINDS, Parameter
from vertexsdk.state import open_store
from vertexsdk.state.address import Address, address_or_default
from vertexsdk.stateful._history import counts_of
from vertexsdk.stateful.call_columns import blocks_of
from vertexsdk.stateful.call_service import as_plain, of_plain

_CALLS = 1 << 12  # of a request
_BYTES = 1 << 26  # of its arguments that are bytes, about
_START = "start `vertexsdk serve FILE:CLASS`, or call serve() of its StatefulLoop"
_INSTEAD = "read its newest snapshot with `vertexsdk query`"


class RemoteMethod(NamedTuple):
    """A method of another process."""

    name: str
    parameters: tuple[Parameter, ...]


class ClientCalls:
    """The calls of one method of a `StatefulClient`; `client.count` is one.

    Args:
        client: the client of the loop that has the method.
        method: its name and parameters.

    Attributes:
        name: the names of the loop and the method.
    """

    def __init__(self, client: StatefulClient, method: RemoteMethod) -> None:
        self._client, self.method = client, method
        self.name = f"{client.loop}.{method.name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method, and return its answer.

        Args:
            args, kwargs: as the method takes them.

        Raises:
            InputError: arguments that the method does not take.
            CallError: it raised; nothing was changed.
            RunError: the process of the loop has ended, or fails; the call was made or not.
        """
        [answer] = self._client._ask(self.method.name, [self._bound(args, kwargs)])
        if isinstance(answer, CallError):
            raise answer
        return answer

    def map(self, *columns: Any, return_exceptions: bool = False) -> list[Any]:
        """Call the method many times, and return the answers in the order of the calls.

        Args:
            columns: as for `flow.METHOD.map` of a `StatefulLoop`.
            return_exceptions: a call that raised has its `CallError` as answer.

        Raises:
            InputError: columns that the method does not take; earlier calls were made.
            CallError: a call raised, and changed nothing; all others were made.
            RunError: the process of the loop has ended, or fails; calls were made or not.
        """
        answers: list[Any] = []
        for values in blocks_of(self.name, self.method, columns):
            rows = zip(*map(python_values, values), strict=True)
            answers += self._client._ask(self.method.name, [list(row) for row in rows])
        failed = [answer for answer in answers if isinstance(answer, CallError)]
        if failed and not return_exceptions:
            more = f" (and {len(failed) - 1:,} more of {len(answers):,} calls)"
            raise CallError(f"{failed[0]}{more}") if len(failed) > 1 else failed[0]
        return answers

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        parameters = self.method.parameters
        names = [p.name for p in parameters]
        takes = f"{self.name}({', '.join(f'{p.name}: {p.kind}' for p in parameters)})"
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        missing = [p.name for p in parameters if p.name not in given and p.default is ABSENT]
        twice = set(names[: len(args)]) & set(kwargs)
        if len(args) > len(names) or set(given) - set(names) or missing or twice:
            raise InputError(f"{takes} takes other arguments; {len(args) + len(kwargs)} were given")
        values = []
        for p in parameters:
            try:
                values.append(p.convert(given[p.name]) if p.name in given else p.default)
            except InputError as error:
                raise InputError(f"{takes}, parameter {p.name}: {error}") from None
        return values


class StatefulClient:
    """Calls a stateful class whose loop another process has open.

    The methods of the class are attributes, as of a `StatefulLoop`: `client.count("be")`,
    `client.count.map(words)`; `client["count"]` is the same one. The other process is
    `vertexsdk serve`, or one that has called `serve` of its `StatefulLoop`. Answers are numbers,
    strings, bytes, lists and dicts: tuples arrive as lists, rows as dicts. Every process that can
    read the store can call; the connection is encrypted.

    Args:
        loop: the name of the loop in the store: that of the class, unless it was given another.
        backend: URL of the store; the default is that of `MainLoop`.
        timeout: seconds that an answer may take, beside a minute; None for an hour.

    Raises:
        StateInputError: the store has no such loop.
        InputError: it is not of a stateful class, or no process answers its calls.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful, StatefulLoop
        >>> class WordCount(Stateful):
        ...     counts = Partitioned(Map(str, int), key="word")
        ...     def add(self, line: str) -> None:
        ...         for word in line.split():
        ...             self.counts[word] += 1
        ...     def count(self, word: str) -> int:
        ...         return self.counts[word]
        >>> with StatefulLoop(WordCount, backend="memory://client") as flow:
        ...     flow.serve()
        ...     with StatefulClient("WordCount", backend="memory://client") as client:
        ...         client.add("to be or not to be")
        ...         client.count.map(["to", "or"])
        [2, 1]
    """

    def __init__(
        self, loop: str, *, backend: str | Address | None = None, timeout: float | None = None
    ) -> None:
        self.loop, self._timeout = loop, timeout
        with open_store(address_or_default(backend), create=False) as store:
            newest = store.head(loop)
            if newest is None:
                raise store.unknown_loop(loop)
            if counts_of(newest) is None:
                raise InputError(
                    f"loop {loop!r} in {store.backend.location} is not of a stateful class: read "
                    "its result with `vertexsdk query`"
                )
            self._requests = RequestClient(store, loop, "calls", _START, _INSTEAD)
        try:
            self._methods = _methods(self._requests.ask({}, timeout))
        except BaseException:
            self._requests.close()
            raise

    def __getattr__(self, name: str) -> ClientCalls:
        methods = self.__dict__.get("_methods", {})
        if name not in methods:
            raise AttributeError(f"StatefulClient has no attribute {name!r}{self._hint(name)}")
        self.__dict__[name] = calls = ClientCalls(self, methods[name])
        return calls

    def __getitem__(self, name: str) -> ClientCalls:
        """Return the calls of a method by its name, or raise InputError with the nearest one."""
        if name not in self._methods:
            raise InputError(f"{self.loop} has no method {name!r}{self._hint(name)}")
        return ClientCalls(self, self._methods[name])

    def _hint(self, name: str) -> str:
        methods = self.__dict__.get("_methods", {})
        near = difflib.get_close_matches(name, methods, 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        return f"{meant or ';'} its methods are {', '.join(methods)}"

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._methods]

    def close(self) -> None:
        """End the connection; the loop continues. May be called twice."""
        self._requests.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Have calls made; return answers, and CallErrors in place of those that raised."""
        answers: list[Any] = []
        size = sum(len(value) for row in calls for value in row if type(value) is bytes)
        most = min(_CALLS, max(_BYTES * len(calls) // max(size, 1), 1))
        for at in range(0, len(calls), most):
            request = {"method": method, "calls": as_plain(calls[at : at + most])}
            reply = self._requests.ask(request, self._timeout)
            part = of_plain(reply["answers"])
            for number, text in reply["errors"].items():
                part[int(number)] = CallError(text)
            answers += part
        return answers


def _methods(reply: Any) -> dict[str, RemoteMethod]:
    """Return the methods that a process says it has."""
    methods = {}
    for name, described in of_plain(reply["methods"]).items():
        parameters = tuple(Parameter(*one) for one in described if one[1] in KINDS)
        methods[name] = RemoteMethod(name, parameters)
    return methods
