"""The row of one call's key as a method sees it: the map of a state element on a processor."""

from __future__ import annotations

from typing import Any

from vertexsdk.program.keyed import ABSENT, KINDS, MapAccess, TableSpec, to_int

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class CurrentRow(MapAccess):
    """The row of the call that runs; that a method uses its key alone is known already.

    Attributes:
        value: of the row: a value, a tuple of its fields, or `ABSENT`.
    """

    def __init__(self, spec: TableSpec) -> None:
        super().__init__(spec)
        self.value: Any = ABSENT

    def load(self, key: Any) -> Any:
        """Return the row's value."""
        return self.value

    def store(self, key: Any, value: Any) -> None:
        """Set the row's value."""
        self.value = value


class RowOfWrongKey(MapAccess):
    """The row of a call whose key is not one: to access it raises, by the line that does."""

    def load(self, key: Any) -> Any:
        """Refuse the key."""
        self.spec.convert_key(key)
        return ABSENT

    def store(self, key: Any, value: Any) -> None:
        """Refuse the key."""
        self.spec.convert_key(key)


class CurrentValue(CurrentRow):
    """As `CurrentRow`, for a map with one value for each key: the short way for the usual calls."""

    def __init__(self, spec: TableSpec) -> None:
        super().__init__(spec)
        self._kind = next(iter(spec.fields.values()))
        self._type = KINDS[self._kind]
        self._convert, self._default = spec.converters[0], spec.default

    def __getitem__(self, key: Any) -> Any:
        value = self.value
        return self._default if value is ABSENT else value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value, or a default where there is none."""
        value = self.value
        return default if value is ABSENT else value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value = value if value.__class__ is self._type else self._convert(value)


class CurrentInt(CurrentValue):
    """As `CurrentValue`, for integers, which have to fit into 64 bits."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if value.__class__ is int and _LEAST <= value <= _MOST:
            self.value = value
        else:
            self.value = to_int(value)


def current_row(spec: TableSpec) -> CurrentRow:
    """Return what the methods of a class see as this state element."""
    if not spec.single:
        return CurrentRow(spec)
    return (CurrentInt if spec.fields["value"] == "int" else CurrentValue)(spec)
