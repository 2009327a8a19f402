"""Built-in algorithms, one file each; `ALGORITHMS` has them by the name the command line takes."""

from vertexsdk import Vertex
from vertexsdk.algorithms.betweenness import BetweennessCentrality
from vertexsdk.algorithms.bfs import BreadthFirstSearch
from vertexsdk.algorithms.bridges import Bridges
from vertexsdk.algorithms.cdlp import LabelPropagation
from vertexsdk.algorithms.closeness import ClosenessCentrality
from vertexsdk.algorithms.colouring import GreedyColouring
from vertexsdk.algorithms.degree import Degree
from vertexsdk.algorithms.edge_similarity import EdgeSimilarity
from vertexsdk.algorithms.eigenvector import EigenvectorCentrality
from vertexsdk.algorithms.forest import SpanningForest
from vertexsdk.algorithms.hits import HubsAndAuthorities
from vertexsdk.algorithms.katz import KatzCentrality
from vertexsdk.algorithms.kcore import Coreness
from vertexsdk.algorithms.khop import KHop
from vertexsdk.algorithms.lcc import ClusteringCoefficient
from vertexsdk.algorithms.leiden import Leiden
from vertexsdk.algorithms.louvain import Louvain
from vertexsdk.algorithms.matching import MaximalMatching
from vertexsdk.algorithms.mis import MaximalIndependentSet
from vertexsdk.algorithms.node2vec import NodeToVec
from vertexsdk.algorithms.pagerank import PageRank
from vertexsdk.algorithms.ppr import PersonalisedPageRank
from vertexsdk.algorithms.scc import StronglyConnectedComponents
from vertexsdk.algorithms.similarity import Similarity
from vertexsdk.algorithms.squares import SquareCount
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.algorithms.triangles import TriangleCount
from vertexsdk.algorithms.truss import Truss
from vertexsdk.algorithms.walks import RandomWalks
from vertexsdk.algorithms.wcc import ConnectedComponents

__all__ = [
    "ALGORITHMS",
    "BetweennessCentrality",
    "BreadthFirstSearch",
    "Bridges",
    "ClosenessCentrality",
    "ClusteringCoefficient",
    "ConnectedComponents",
    "Coreness",
    "Degree",
    "EdgeSimilarity",
    "EigenvectorCentrality",
    "GreedyColouring",
    "HubsAndAuthorities",
    "KHop",
    "KatzCentrality",
    "LabelPropagation",
    "Leiden",
    "Louvain",
    "MaximalIndependentSet",
    "MaximalMatching",
    "NodeToVec",
    "PageRank",
    "PersonalisedPageRank",
    "RandomWalks",
    "ShortestPaths",
    "Similarity",
    "SpanningForest",
    "SquareCount",
    "StronglyConnectedComponents",
    "TriangleCount",
    "Truss",
]

ALGORITHMS: dict[str, type[Vertex]] = {
    "betweenness": BetweennessCentrality,
    "bfs": BreadthFirstSearch,
    "bridges": Bridges,
    "cdlp": LabelPropagation,
    "closeness": ClosenessCentrality,
    "colouring": GreedyColouring,
    "degree": Degree,
    "edge_similarity": EdgeSimilarity,
    "eigenvector": EigenvectorCentrality,
    "forest": SpanningForest,
    "hits": HubsAndAuthorities,
    "katz": KatzCentrality,
    "kcore": Coreness,
    "khop": KHop,
    "lcc": ClusteringCoefficient,
    "leiden": Leiden,
    "louvain": Louvain,
    "matching": MaximalMatching,
    "mis": MaximalIndependentSet,
    "node2vec": NodeToVec,
    "pagerank": PageRank,
    "ppr": PersonalisedPageRank,
    "scc": StronglyConnectedComponents,
    "similarity": Similarity,
    "squares": SquareCount,
    "sssp": ShortestPaths,
    "triangles": TriangleCount,
    "truss": Truss,
    "walks": RandomWalks,
    "wcc": ConnectedComponents,
}
