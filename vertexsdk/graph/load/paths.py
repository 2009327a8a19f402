"""Whether the files of a graph are there, before anything starts."""

from __future__ import annotations

from collections.abc import Sequence

from vertexsdk.errors import InputError
from vertexsdk.graph.load._files import expand, local_path


def check_paths(edges: Sequence[str], vertices: str | None = None) -> None:
    """Raise InputError if a file of this machine is not there, or cannot be read.

    Args:
        edges: files, directories and globs; those of other file systems are not looked at.
        vertices: a vertex file.
    """
    expand([p for p in map(local_path, edges) if p is not None])
    if vertices is not None and (path := local_path(vertices)) is not None:
        try:
            expand([path])
        except InputError as error:
            raise InputError(str(error).replace("an edge file", "a vertex file")) from None
