"""What the tests of vertex and of edge attributes share: places to run, ids, results by vertex."""

from __future__ import annotations

from typing import Any

__all__ = ["by_vertex", "place_of", "vertex_id"]


def place_of(request: Any) -> tuple[Any, int]:
    """A Spark session or None, and a number of partitions, of a parameter such as "spark-2"."""
    kind, partitions = request.param.split("-")
    return request.getfixturevalue("spark") if kind == "spark" else None, int(partitions)


def vertex_id(ids: str, number: int) -> Any:
    """A vertex of a graph whose `ids` are "int" or "string"."""
    return number if ids == "int" else f"v{number}"


def by_vertex(result: Any, field: str) -> dict[Any, Any]:
    """One field of a result, by vertex."""
    columns = result.columns()
    return dict(zip(columns["id"].tolist(), columns[field].tolist(), strict=True))
