"""A head that moves, with or without a new manifest: one step of every backend that is built in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vertexsdk.state.contract import Backend, Head, SegmentKey

__all__ = ["Publication", "PublishingBackend"]


@dataclass(frozen=True, slots=True)
class Publication:
    """A manifest that is stored as a head moves; see `Backend.publish`. Without a name, none is."""

    name: str = ""
    data: bytes = b""
    references: Sequence[str] = ()
    requires: Sequence[SegmentKey] = ()


class PublishingBackend(Backend):
    """A backend whose `swap_head` and `publish` are one method."""

    def swap_head(
        self, loop: str, expected: Head | None, head: Head, *, restart: bool = False
    ) -> bool:
        return self._swap(loop, expected, head, restart, Publication())

    def publish(
        self,
        name: str,
        data: bytes,
        loop: str,
        expected: Head | None,
        head: Head,
        *,
        restart: bool = False,
        references: Iterable[str] = (),
        requires: Iterable[SegmentKey] = (),
    ) -> bool:
        new = Publication(name, data, list(references), list(requires))
        return self._swap(loop, expected, head, restart, new)

    @abstractmethod
    def _swap(
        self, loop: str, expected: Head | None, head: Head, restart: bool, new: Publication
    ) -> bool:
        """Move the head if it is `expected`, and store what is published, in one atomic step."""
