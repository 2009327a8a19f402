"""Placement of a stateful class's state elements on partitions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, Self, overload

from vertexsdk.errors import ProgramError, excerpt
from vertexsdk.program.keyed import TableSpec
from vertexsdk.program.keyed_state import (
    Journal,
    RowsState,
    StateElement,
    as_seen,
    state_in_memory,
)
from vertexsdk.stateful.elements import Matrix


class Placement:
    """A state element and its place: the base of `Partitioned`, `PerPartition` and `Broadcast`.

    Args:
        element: what is kept.

    Attributes:
        where: as `TableSpec` has it.
        key: the name of the key; "" for none.

    Raises:
        ProgramError: that is not a state element, or is not declared as one has to be.
    """

    where: ClassVar[str]

    def __init__(self, element: StateElement | type[Matrix]) -> None:
        element = Matrix() if element is Matrix else element
        if not isinstance(element, StateElement):
            raise ProgramError(
                f"{type(self).__name__}({excerpt(element)}): give a Map, as Map(int, float), a "
                "Value, Array, Matrix or another StateElement"
            )
        element.check()
        self.element, self.key, self.name = element, "", ""
        self._combine: Callable[[Any, Any], Any] = operator.add

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.element!r})"

    @property
    def spec(self) -> TableSpec:
        """The table of the element."""
        return TableSpec(self.name, self.element, self.where, self._combine)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: type | None = None) -> Any: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        names = instance.__dict__
        if self.name not in names:
            journal = names.setdefault("_journal", Journal())
            names[self.name] = as_seen(self.spec, state_in_memory(self.spec, journal))
        return names[self.name]


class Partitioned(Placement):
    """A state element whose rows are divided among the partitions by their keys.

    Args:
        element: what is kept: a `Map`, a `Matrix`, an `Array` by its places, a `Value`, which one
            of the partitions has, or a `StateElement` of your own.
        key: what the methods call the key. Calls of a method that has it as a parameter go to its
            partition at once. A `Value` has none.

    Raises:
        ProgramError: the element is not one, or the key is not a name.

    Example:
        >>> from vertexsdk import Map, Stateful
        >>> class Balance(Stateful):
        ...     cents = Partitioned(Map(int, int), key="account")
        ...     def add(self, account: int, amount: int) -> int:
        ...         self.cents[account] += amount
        ...         return self.cents[account]
        >>> Balance().add(7, 250)
        250
    """

    where = "key"

    def __init__(self, element: StateElement | type[Matrix], *, key: str = "") -> None:
        super().__init__(element)
        if not isinstance(key, str) or (self.element.keyed and not key.isidentifier()):
            raise ProgramError(
                f"Partitioned(..., key={excerpt(key)}): give the name of a parameter, as key='user'"
            )
        self.key = key


class PerPartition(Placement):
    """A state element that every partition has for itself, the paper's partial state.

    A call changes the one of the partition where it is. `on_all` reads those of all partitions, and
    `gather_all` has their values in a list, to be merged.

    Args:
        element: what is kept.
        combine: returns one value for the two of a key, where partitions become fewer; of numbers
            their sum.

    Raises:
        ProgramError: there is no `combine` for values that are not numbers.

    Example:
        >>> from vertexsdk import Stateful, Value, gather_all, on_all
        >>> class Words(Stateful):
        ...     number = PerPartition(Value(int))
        ...     def add(self, line: str) -> None:
        ...         self.number.value += len(line.split())
        ...     def count(self) -> int:
        ...         return sum(gather_all(on_all(self.number).value))
        >>> words = Words()
        >>> words.add("to be or not to be")
        >>> words.count()
        6
    """

    where = "partition"

    def __init__(
        self,
        element: StateElement | type[Matrix],
        *,
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        super().__init__(element)
        kinds = set(self.element.fields.values())
        combines = self.element.state.combine is not RowsState.combine
        if combine is None and not combines and not kinds <= {"int", "float"}:
            raise ProgramError(
                f"{self!r}: give combine=, a function of two values of a key that returns one, for "
                "when partitions become fewer"
            )
        self._combine = combine or operator.add


class Broadcast(Placement):
    """A state element that is the same on all partitions: read where a call is, written on all.

    Args:
        element: what is kept.

    Raises:
        ProgramError: `element` is not a state element.

    Example:
        >>> from vertexsdk import Map, Stateful
        >>> class Flags(Stateful):
        ...     flags = Broadcast(Map(str, bool))
        ...     def switch(self, flag: str, on: bool) -> None:
        ...         self.flags[flag] = on
        ...     def is_on(self, flag: str) -> bool:
        ...         return self.flags[flag]
        >>> flags = Flags()
        >>> flags.switch("dark", True)
        >>> flags.is_on("dark"), flags.is_on("light")
        (True, False)
    """

    where = "everywhere"
