"""Built-in algorithms, one file each; `ALGORITHMS` has them by the name the command line takes."""

from vertexsdk import Vertex
from vertexsdk.algorithms.bfs import BreadthFirstSearch
from vertexsdk.algorithms.cdlp import LabelPropagation
from vertexsdk.algorithms.degree import Degree
from vertexsdk.algorithms.kcore import Coreness
from vertexsdk.algorithms.lcc import ClusteringCoefficient
from vertexsdk.algorithms.pagerank import PageRank
from vertexsdk.algorithms.scc import StronglyConnectedComponents
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.algorithms.wcc import ConnectedComponents

__all__ = [
    "ALGORITHMS",
    "BreadthFirstSearch",
    "ClusteringCoefficient",
    "ConnectedComponents",
    "Coreness",
    "Degree",
    "LabelPropagation",
    "PageRank",
    "ShortestPaths",
    "StronglyConnectedComponents",
]

ALGORITHMS: dict[str, type[Vertex]] = {
    "bfs": BreadthFirstSearch,
    "cdlp": LabelPropagation,
    "degree": Degree,
    "kcore": Coreness,
    "lcc": ClusteringCoefficient,
    "pagerank": PageRank,
    "scc": StronglyConnectedComponents,
    "sssp": ShortestPaths,
    "wcc": ConnectedComponents,
}
