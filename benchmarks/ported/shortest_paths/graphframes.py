from graphframes.lib import Pregel
from pyspark.sql import functions as F


def answer(graph, origin):
    far = F.lit(float("inf"))
    through = Pregel.src("length") + Pregel.edge("value")
    return (
        graph.pregel.setMaxIter(1000)
        .setEarlyStopping(True)
        .withVertexColumn(
            "length",
            F.when(F.col("id") == origin, F.lit(0.0)).otherwise(far),
            F.least(F.col("length"), F.coalesce(Pregel.msg(), far)),
        )
        .sendMsgToDst(F.when(through < Pregel.dst("length"), through))
        .aggMsgs(F.min(Pregel.msg()))
        .run()
        .select("id", F.col("length").alias("value"))
    )
