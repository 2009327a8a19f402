"""Errors of the versioned store, derived from `StateError`.

StateError
├── CorruptError    stored bytes have changed; defined in `arrays.corruption`
├── FencedError     another driver took this loop over; stop
├── FullError       no room left where the store is
├── MissingError    a segment or manifest that a version needs is not there
└── StateInputError
    ├── FormatError written by another version of vertexsdk, or not a store at all
    └── OwnerError  the loop belongs to another program or schema
"""

from __future__ import annotations

from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.errors import StateError, StateInputError

__all__ = ["CorruptError", "FencedError", "FormatError", "FullError", "MissingError"]
__all__ += ["OwnerError", "StateError", "StateInputError"]


class FencedError(StateError):
    """Another driver took over this loop: nothing more of this one is written."""


class FullError(StateError):
    """No room left; what was committed before stays readable."""


class MissingError(StateError):
    """A version needs something that the backend no longer has."""

    @classmethod
    def of_segment(cls, key: object) -> MissingError:
        """The error of a commit that names a segment which is not there."""
        return cls(
            f"segment {key} was collected before it was committed: run this again, and collect "
            "with a longer grace="
        )


class FormatError(StateInputError):
    """The place named by the URL holds another format, or something else."""


class OwnerError(StateInputError):
    """The loop was written by another program, or with other fields."""
