"""Classes of triggers, and for each what a batch job computes of the same rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import networkx as nx
import numpy as np

from vertexsdk import (
    Array,
    Family,
    Latest,
    Mean,
    Min,
    Sum,
    Table,
    Triggers,
    accumulate,
    on_change,
    param,
)

Rows = Mapping[Any, Mapping[str, Any]]  # by key


class Words(Triggers):
    """How often each word is on the pages (section 4.1 of the Domino paper)."""

    pages = Table(url=str, text=str)
    words = Table(word=str, count=int)

    @on_change(pages, "text")
    def split(self, page, old):
        for word in old.text.split():
            self.words[word].count -= 1
        for word in page.text.split():
            self.words[word].count += 1


def count_words(pages: Rows) -> dict[Any, dict[str, Any]]:
    """Return the rows of `Words.words`."""
    counts = Counter(word for page in pages.values() for word in page["text"].split())
    return {word: {"count": count} for word, count in counts.items()}


class Rank(Triggers):
    """PageRank (section 4.2)."""

    pages = Table(url=str, links=list[str], rank=0.15)
    tolerance: float = param(1e-12)

    @on_change(pages, "links", "rank", when="changed")
    def spread(self, page, old):
        for url in old.links:
            self.incoming[url].discard(page.url)
        for url in page.links:
            self.incoming[url][page.url] = 0.85 * page.rank / len(page.links)

    def changed(self, page, old):
        return page.links != old.links or abs(page.rank - old.rank) > self.tolerance

    @accumulate(Sum(float), synchronous=True)
    def incoming(self, url, total):
        self.pages[url].rank = 0.15 + total


class AsynchronousRank(Rank):
    """PageRank, whose partial results do not wait for the end of a round."""

    @accumulate(Sum(float), synchronous=False)
    def incoming(self, url, total):
        self.pages[url].rank = 0.15 + total


def page_ranks(pages: Rows) -> dict[Any, dict[str, Any]]:
    """Return the rows of `Rank.pages`."""
    urls = sorted({*pages, *(url for page in pages.values() for url in page["links"])})
    places = {url: k for k, url in enumerate(urls)}
    spread = np.zeros((len(urls), len(urls)))
    for url, page in pages.items():
        for link in set(page["links"]):
            spread[places[link], places[url]] = 0.85 / len(page["links"])
    ranks = np.linalg.solve(np.eye(len(urls)) - spread, np.full(len(urls), 0.15))
    known = {url: {"links": [], **pages.get(url, {})} for url in urls}
    return {url: {**known[url], "rank": rank} for url, rank in zip(urls, ranks, strict=True)}


class Distances(Triggers):
    """The distance of each node from the sources, none where it is above a limit (section 3.3)."""

    nodes = Table(id=int, edges=Family(int, float), source=bool, distance=math.inf)
    limit: float = param(40.0)

    @on_change(nodes, "edges", "distance")
    def spread(self, node, old):
        for target in old.edges.keys() - node.edges.keys():
            self.paths[target].discard(node.id)
        for target, length in node.edges.items():
            if node.distance + length <= self.limit:
                self.paths[target][node.id] = node.distance + length
            else:
                self.paths[target].discard(node.id)

    @on_change(nodes, "source")
    def begin(self, node, old):
        if node.source:
            self.paths[node.id]["source"] = 0.0
        else:
            self.paths[node.id].discard("source")

    @accumulate(Min(float), synchronous=False)
    def paths(self, id, shortest):
        self.nodes[id].distance = shortest


class SynchronousDistances(Distances):
    """As `Distances`, in rounds."""

    @accumulate(Min(float), synchronous=True)
    def paths(self, id, shortest):
        self.nodes[id].distance = shortest


def distances(nodes: Rows) -> dict[Any, dict[str, Any]]:
    """Return the rows of `Distances.nodes`."""
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    for node, row in nodes.items():
        graph.add_weighted_edges_from((node, t, w) for t, w in row["edges"].items())
    sources = {node for node, row in nodes.items() if row["source"]}
    known = nx.multi_source_dijkstra_path_length(graph, sources) if sources else {}
    reached = {node: float(length) for node, length in known.items() if length <= 40}
    blank = {"edges": {}, "source": False}
    return {
        node: {**blank, **nodes.get(node, {}), "distance": reached.get(node, math.inf)}
        for node in {*nodes, *reached}
    }


class Colours(Triggers):
    """Colours of which neighbours have different ones, the smallest ones first (section 3.3)."""

    nodes = Table(id=int, neighbours=list[int], colour=int)

    @on_change(nodes, "neighbours", "colour")
    def tell(self, node, old):
        for other in old.neighbours:
            self.taken[other].discard(node.id)
        for other in node.neighbours:
            if other > node.id:
                self.taken[other][node.id] = node.colour

    @accumulate(Latest(int), synchronous=False)
    def taken(self, id, colours):
        self.nodes[id].colour = next(
            k for k in range(len(colours) + 1) if k not in colours.values()
        )


def colours(nodes: Rows) -> dict[Any, dict[str, Any]]:
    """Return the rows of `Colours.nodes`."""
    chosen: dict[int, int] = {}
    others = {other for row in nodes.values() for other in row["neighbours"]}
    for node in sorted({*nodes, *others}):
        lower = [k for k, row in nodes.items() if k < node and node in row["neighbours"]]
        taken = {chosen[k] for k in lower}
        chosen[node] = next(k for k in range(len(taken) + 1) if k not in taken)
    known = {node: nodes.get(node, {"neighbours": []}) for node in chosen}
    shown = {node: {**known[node], "colour": colour} for node, colour in chosen.items()}
    return {node: row for node, row in shown.items() if node in nodes or row["colour"]}


class Crawler(Triggers):
    """The pages that are reached from those that someone asked for, in a few steps (section 3)."""

    pages = Table(url=str, links=list[str], wanted=bool, depth=-1)
    deepest: int = param(3)

    @on_change(pages, "wanted")
    def ask(self, page, old):
        if page.wanted:
            self.ways[page.url]["asked for"] = 0
        else:
            self.ways[page.url].discard("asked for")

    @on_change(pages, "links", "depth")
    def analyse(self, page, old):
        for url in old.links:
            self.ways[url].discard(page.url)
        if 0 <= page.depth < self.deepest:
            for url in page.links:
                self.ways[url][page.url] = page.depth + 1

    @accumulate(Latest(int), synchronous=True)
    def ways(self, url, depths):
        self.pages[url].depth = min(depths.values(), default=-1)


def crawled(pages: Rows) -> dict[Any, dict[str, Any]]:
    """Return the rows of `Crawler.pages`."""
    depths = {url: 0 for url, page in pages.items() if page["wanted"]}
    front = list(depths)
    for depth in range(1, 4):
        links = [link for url in front for link in pages.get(url, {"links": []})["links"]]
        front = [link for link in dict.fromkeys(links) if link not in depths]
        depths |= dict.fromkeys(front, depth)
    blank = {"links": [], "wanted": False}
    return {
        url: {**blank, **pages.get(url, {}), "depth": depths.get(url, -1)}
        for url in {*pages, *depths}
    }


class Sensors(Triggers):
    """Every kind of column and of accumulator: the mean of vectors, and what it is nearest to."""

    readings = Table(id=int, place=str, at=Array(float, size=2), tags=Family(str, int), raw=bytes)
    places = Table(place=str, at=Array(float, size=2), heaviest=-1, readings=int, ids=list[int])

    @on_change(readings, "place", "at", "tags")
    def put(self, reading, old):
        if old and old.place != reading.place:
            self.where[old.place].discard(reading.id)
            self.weights[old.place].discard(reading.id)
            self.places[old.place].readings -= 1
        if not reading:
            if old.place == reading.place:
                self.where[old.place].discard(reading.id)
                self.weights[old.place].discard(reading.id)
                self.places[old.place].readings -= 1
            return
        if not old or old.place != reading.place:
            self.places[reading.place].readings += 1
        self.where[reading.place][reading.id] = reading.at
        self.weights[reading.place][reading.id] = reading.tags.get("weight", 0)

    @accumulate(Mean(float, size=2))
    def where(self, place, mean):
        self.places[place].at = mean

    @accumulate(Latest(int))
    def weights(self, place, weights):
        ids = sorted(weights, key=lambda id: (-weights[id], id))
        self.places[place].heaviest = ids[0] if ids else -1
        self.places[place].ids = sorted(weights)
        if not ids:  # a mean of nothing is none, and so the last one would stay
            self.places[place].at = [0.0, 0.0]


def sensors(readings: Rows) -> dict[Any, dict[str, Any]]:
    """Return the rows of `Sensors.places`."""
    places: dict[str, dict[int, Mapping[str, Any]]] = {}
    for id, row in readings.items():
        places.setdefault(row["place"], {})[id] = row
    shown = {}
    for place, rows in places.items():
        ids = sorted(rows, key=lambda id: (-rows[id]["tags"].get("weight", 0), id))
        shown[place] = {
            "at": np.mean([rows[id]["at"] for id in rows], axis=0), "heaviest": ids[0],
            "readings": len(rows), "ids": sorted(rows),
        }  # fmt: skip
    return shown


class KMeans(Triggers):
    """Clusters of points, each with the mean of its own (section 4.3)."""

    items = Table(id=int, point=Array(float, size=2), cluster=-1)
    centres = Table(id=int, point=Array(float, size=2), broadcast=True)

    @on_change(items, "point")
    def assign(self, item, old):
        if not item:
            self.members[old.cluster].discard(item.id)
            return
        near = nearest(item.point, self.centres)
        if near != item.cluster:
            self.members[item.cluster].discard(item.id)
            item.cluster = near
        self.members[near][item.id] = item.point

    @accumulate(Mean(float, size=2), synchronous=True)
    def members(self, cluster, mean):
        if cluster >= 0:
            self.centres[cluster].point = mean

    @on_change(centres, "point")
    def again(self, centre, old):
        self.activate(self.assign)


def nearest(point: Any, centres: Any) -> int:
    """Return the id of the centre that is nearest to a point."""
    distances = ((centres.values("point") - point) ** 2).sum(axis=1)
    return centres.keys()[distances.argmin()] if len(distances) else -1
