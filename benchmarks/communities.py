"""The right answers about communities and triangles, by plain code as in `reference`."""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from benchmarks.reference import ITERATIONS, FloatArray, IntArray


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _fill_lists(source, target, end, member):  # type: ignore[no-untyped-def]
    for k in range(source.size):
        end[source[k]] -= 1
        member[end[source[k]]] = target[k]


def _lists(source: IntArray, target: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """For every vertex v the targets of its edges: ``member[first[v]:first[v + 1]]``."""
    first = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=n), out=first[1:])
    member = np.empty(source.size, np.int64)
    _fill_lists(source, target, first[1:].copy(), member)
    return first, member


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _most_frequent(first, member, label):  # type: ignore[no-untyped-def]
    new = label.copy()
    for v in range(label.size):
        seen = np.sort(label[member[first[v] : first[v + 1]]])
        most, at = 0, 0
        while at < seen.size:
            end = at
            while end < seen.size and seen[end] == seen[at]:
                end += 1
            if end - at > most:
                most, new[v] = end - at, seen[at]
            at = end
    return new


def labels(source: IntArray, target: IntArray, n: int) -> IntArray:
    """Communities by ten rounds of label propagation, as CDLP of LDBC Graphalytics: int64[n].

    Every vertex starts with itself; in each round, all at once, it takes the label that is most
    frequent at the other ends of its edges, the least where several are. An edge that stands twice,
    or in both directions, counts twice.
    """
    ends = np.concatenate((source, target)), np.concatenate((target, source))
    first, member = _lists(*ends, n)
    label = np.arange(n, dtype=np.int64)
    for _ in range(ITERATIONS):
        label = _most_frequent(first, member, label)
    return label


class Clustering(NamedTuple):
    """Local clustering coefficients on the graph without duplicates and self-loops, float64[n].

    The share of the ordered pairs of a vertex's neighbours, in either direction, that are edges.
    ``directed``: those from the one to the other (the definition of LDBC Graphalytics, and ours);
    ``undirected``: those in either direction, so that every edge counts both ways.
    """

    directed: FloatArray
    undirected: FloatArray


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _triangles(first, member, ways, directed, undirected):  # type: ignore[no-untyped-def]
    way = np.zeros(directed.size, np.int64)  # in how many directions u is joined to each vertex
    for u in range(directed.size):
        for k in range(first[u], first[u + 1]):
            way[member[k]] = ways[k]
        for k in range(first[u], first[u + 1]):
            v = member[k]
            for j in range(first[v], first[v + 1]):
                w = member[j]
                if way[w]:
                    directed[u] += ways[j]
                    directed[v] += way[w]
                    directed[w] += ways[k]
                    undirected[u] += 2
                    undirected[v] += 2
                    undirected[w] += 2
        for k in range(first[u], first[u + 1]):
            way[member[k]] = 0


def clustering(source: IntArray, target: IntArray, n: int) -> Clustering:
    """The coefficients of `Clustering`, from a list of all triangles."""
    key = np.unique(source * n + target)
    source, target = key // n, key % n
    apart = source != target
    source, target = source[apart], target[apart]
    low, high = np.minimum(source, target), np.maximum(source, target)
    pair, ways = np.unique(low * n + high, return_counts=True)
    low, high = pair // n, pair % n
    degree = np.bincount(low, minlength=n) + np.bincount(high, minlength=n)
    # Each pair is kept at the end with fewer neighbours, so that no vertex has a long list; a
    # triangle is found once, at the least of its corners.
    place = np.empty(n, np.int64)
    place[np.argsort(degree, kind="stable")] = np.arange(n)
    start, end = np.minimum(place[low], place[high]), np.maximum(place[low], place[high])
    order = np.argsort(start, kind="stable")
    first = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(start, minlength=n), out=first[1:])
    directed, undirected = np.zeros(n), np.zeros(n)
    _triangles(first, end[order], ways[order], directed, undirected)
    pairs = np.maximum(degree * (degree - 1.0), 1.0)
    return Clustering(directed[place] / pairs, undirected[place] / pairs)
