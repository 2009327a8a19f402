"""`Stateful`: a plain class whose state is in state elements."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from vertexsdk.errors import InputError, ProgramError
from vertexsdk.program.keyed import CONVERTERS, KINDS, answered
from vertexsdk.program.keyed_state import Journal


class Stateful:
    """The base of a class whose state is divided by key.

    State is in state elements alone, as `Partitioned(Map(...), key=...)`; public methods are the
    calls that it takes. An instance is a plain Python object. A method that raises changes nothing.

    Example:
        >>> from vertexsdk import Map, Partitioned
        >>> class WordCount(Stateful):
        ...     counts = Partitioned(Map(str, int), key="word")
        ...     def add(self, line: str) -> None:
        ...         for word in line.split():
        ...             self.counts[word] += 1
        ...     def count(self, word: str) -> int:
        ...         return self.counts[word]
        >>> words = WordCount()
        >>> words.add("to be or not to be")
        >>> words.count("be")
        2
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        stateful_bases = cls.__mro__[: cls.__mro__.index(Stateful)]
        for name in dict.fromkeys(name for base in reversed(stateful_bases) for name in vars(base)):
            if name.startswith("_"):
                continue
            member = inspect.getattr_static(cls, name)  # also of a base that is not Stateful
            if isinstance(member, FunctionType) and not hasattr(member, _WRAPPED):
                setattr(cls, name, _call(member))

    def __setattr__(self, name: str, value: Any) -> None:
        raise ProgramError(
            f"{type(self).__name__}.{name}: keep state in a state element, as "
            f"{name} = Partitioned(Map(str, int), key='user')"
        )


def kind_of(annotation: Any) -> str | None:
    """Return the type that an annotation names, of `KINDS`; None for another one, or for none.

    >>> kind_of(int), kind_of("str"), kind_of(list)
    ('int', 'str', None)
    """
    for kind, of in KINDS.items():
        if annotation is of or annotation == kind:
            return kind
    return None


def bind(
    signature: inspect.Signature, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """Return the argument of each parameter, converted to the type of its annotation.

    Raises:
        InputError: arguments that the signature does not take, or of another type.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"{name}(): {error}") from None
    bound.apply_defaults()
    values = []
    for parameter in signature.parameters.values():
        kind, value = kind_of(parameter.annotation), bound.arguments[parameter.name]
        try:
            values.append(value if kind is None else CONVERTERS[kind](value))
        except InputError as error:
            raise InputError(f"{name}(), parameter {parameter.name}: {error}") from None
    return values


def without_self(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a method without `self`."""
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _call(function: FunctionType) -> Callable[..., Any]:
    """Make a method convert its arguments, and take back what it changed when it raises."""
    signature: list[inspect.Signature] = []

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        journal: Journal = self.__dict__.setdefault("_journal", Journal())
        if journal.running:
            return function(self, *args, **kwargs)
        if not signature:
            signature.append(without_self(function))
        plain = {p.kind for p in signature[0].parameters.values()} <= {_POSITIONAL}
        if plain:
            args, kwargs = tuple(bind(signature[0], function.__qualname__, args, kwargs)), {}
        journal.running = True
        try:
            return answered(function(self, *args, **kwargs))
        except BaseException:
            journal.undo(0)
            raise
        finally:
            journal.running = False
            journal.clear()

    setattr(call, _WRAPPED, True)
    return call


_WRAPPED = "_vertexsdk_call"
_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
