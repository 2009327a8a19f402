from graphframes.lib import Pregel
from pyspark.sql import functions as F


def answer(graph, origin):
    hot = F.col("id") == origin
    mixed = (F.col("heat") + Pregel.msg()) / 2
    return (
        graph.pregel.setMaxIter(10)
        .withVertexColumn(
            "heat",
            F.when(hot, F.lit(100.0)).otherwise(F.lit(0.0)),
            F.when(hot | Pregel.msg().isNull(), F.col("heat")).otherwise(mixed),
        )
        .sendMsgToDst(Pregel.src("heat"))
        .aggMsgs(F.avg(Pregel.msg()))
        .run()
        .select("id", F.col("heat").alias("value"))
    )
