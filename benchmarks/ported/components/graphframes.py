from graphframes.lib import Pregel
from pyspark.sql import functions as F


def answer(graph):
    return (
        graph.pregel.setMaxIter(1000)
        .setEarlyStopping(True)
        .withVertexColumn(
            "label", F.col("id"), F.least(F.col("label"), F.coalesce(Pregel.msg(), F.col("label")))
        )
        .sendMsgToDst(F.when(Pregel.src("label") < Pregel.dst("label"), Pregel.src("label")))
        .sendMsgToSrc(F.when(Pregel.dst("label") < Pregel.src("label"), Pregel.dst("label")))
        .aggMsgs(F.min(Pregel.msg()))
        .run()
        .select("id", F.col("label").alias("value"))
    )
