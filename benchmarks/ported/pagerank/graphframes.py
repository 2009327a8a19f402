from graphframes import GraphFrame
from graphframes.lib import Pregel
from pyspark.sql import functions as F


def answer(graph):
    vertices = graph.vertices.join(graph.outDegrees, "id", "left")
    return (
        GraphFrame(vertices, graph.edges)
        .pregel.setMaxIter(10)
        .withVertexColumn(
            "rank", F.lit(0.15), F.coalesce(Pregel.msg(), F.lit(0.0)) * F.lit(0.85) + F.lit(0.15)
        )
        .sendMsgToDst(Pregel.src("rank") / Pregel.src("outDegree"))
        .aggMsgs(F.sum(Pregel.msg()))
        .run()
        .select("id", F.col("rank").alias("value"))
    )
