from graphframes import GraphFrame
from graphframes.lib import AggregateMessages as AM
from pyspark.sql import functions as F


def answer(graph):
    vertices = graph.vertices.join(graph.inDegrees, "id", "left").fillna(0, ["inDegree"])
    return GraphFrame(vertices, graph.edges).aggregateMessages(
        [F.sum(AM.msg).alias("value")], sendToDst=[AM.src["inDegree"]]
    )
