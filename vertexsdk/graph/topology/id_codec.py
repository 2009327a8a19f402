"""String vertex ids: the engine computes with codes, an interpreted method sees strings.

Codes and strings order alike (`StringIds`, `NameCodes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from vertexsdk.errors import RunError, excerpt
from vertexsdk.program.algebra import INT_MAX, INT_MIN


def _above(other: object) -> Any:
    """Return whether a number or a complement comes after all names, or NotImplemented.

    `INT_MAX` does, `INT_MIN` does not, and complements do not, as their codes are negative.
    """
    if isinstance(other, int) and other in (INT_MAX, INT_MIN):
        return other == INT_MAX
    return False if isinstance(other, Complement) else NotImplemented


class VertexName(str):
    """A string id as a method sees it; `~` is its complement, as that of an integer id is.

    >>> VertexName("a") < INT_MAX, min(VertexName("b"), VertexName("a"), INT_MAX)
    (True, 'a')
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __lt__(self, other: object) -> Any:
        return str.__lt__(self, other) if isinstance(other, str) else _above(other)

    def __le__(self, other: object) -> Any:
        return str.__le__(self, other) if isinstance(other, str) else _above(other)

    def __gt__(self, other: object) -> Any:
        if isinstance(other, str):
            return str.__gt__(self, other)
        above = _above(other)
        return above if above is NotImplemented else not above

    def __ge__(self, other: object) -> Any:
        if isinstance(other, str):
            return str.__ge__(self, other)
        return self > other

    def __invert__(self) -> Complement:
        return Complement(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class _Extreme(VertexName):
    """A string above or below all others: what `Min(VertexId)` and `Max(VertexId)` start from.

    As it is a subclass, Python asks it first where it stands right of a name.
    """

    __slots__ = ("code",)
    __hash__ = str.__hash__
    code: int

    def __lt__(self, other: object) -> bool:
        return self.code < 0 and self != other

    def __gt__(self, other: object) -> bool:
        return self.code > 0 and self != other

    def __le__(self, other: object) -> bool:
        return self.code < 0 or self == other

    def __ge__(self, other: object) -> bool:
        return self.code > 0 or self == other

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.code

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __invert__(self) -> Any:
        return BOTTOM if self is TOP else TOP

    def __reduce__(self) -> str:  # type: ignore[override]
        return "TOP" if self is TOP else "BOTTOM"


TOP, BOTTOM = _Extreme("<none>"), _Extreme("<none>")
TOP.code, BOTTOM.code = INT_MAX, INT_MIN


@dataclass(frozen=True, order=False)
class Complement:
    """The complement of a string id; complements order the other way round.

    >>> ~Complement(VertexName("a")), ~VertexName("b") < ~VertexName("a")
    ('a', True)
    """

    name: VertexName

    def __invert__(self) -> VertexName:
        return self.name

    def __lt__(self, other: object) -> Any:
        if isinstance(other, Complement):
            return other.name < self.name
        return other is not BOTTOM if isinstance(other, str) else _above(other)

    def __gt__(self, other: object) -> Any:
        less = self.__lt__(other)
        return less if less is NotImplemented else not less and self != other

    def __le__(self, other: object) -> Any:
        return self == other or self < other

    def __ge__(self, other: object) -> Any:
        return self == other or self > other


class NamedCodes(Protocol):
    """The codes of strings, looked up one by one."""

    def name(self, code: int) -> str:
        """Return the string of a code."""

    def code(self, name: str) -> int:
        """Return the code of a string, -1 where it has none."""


class Namer(Protocol):
    """Translates between string ids and what an engine calls its vertices."""

    def decode(self, code: Any) -> Any:
        """Return the string that a method sees."""

    def encode(self, name: Any) -> Any:
        """Return what the engine calls it."""


class IdCodec:
    """The strings of a graph by their codes, seen from an interpreted method."""

    def __init__(self, codes: NamedCodes) -> None:
        self._codes = codes
        self._name_of: dict[int, Any] = {INT_MAX: TOP, INT_MIN: BOTTOM}
        self._code_of: dict[str, int] = {}

    def decode(self, code: int) -> Any:
        """Return the string of a code, or the complement of the string of its complement."""
        name = self._name_of.get(code)
        if name is None:
            try:
                name = ~self.decode(~code) if code < 0 else VertexName(self._codes.name(code))
            except IndexError:
                raise RunError(
                    f"the number {code} stands for no vertex, as the graph's ids are strings: give "
                    "a VertexId no number but INT_MAX or INT_MIN"
                ) from None
            self._name_of[code] = name
        return name

    def encode(self, name: Any) -> int:
        """Return the code of a string.

        Raises:
            RunError: the graph has no such vertex, as for each number but `INT_MAX` and `INT_MIN`;
                string graphs cannot grow during a run.
        """
        if isinstance(name, _Extreme):
            return name.code
        if isinstance(name, Complement):
            return ~self.encode(name.name)
        if not isinstance(name, str):
            if isinstance(name, int) and name in (INT_MAX, INT_MIN):
                return int(name)
            raise RunError(f"{excerpt(name)} is not a vertex: the graph's ids are strings")
        code = self._code_of.get(name)
        if code is None:
            code = self._code_of[name] = self._codes.code(name)
        if code < 0:
            raise RunError(
                f"vertex {excerpt(name)} is not in the graph; with string ids list new vertices in "
                "the vertex file, or use int64 ids"
            )
        return code
