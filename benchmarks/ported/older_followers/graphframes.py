from graphframes.lib import AggregateMessages as AM
from pyspark.sql import functions as F


def answer(graph):
    older = F.when(AM.src["id"] > AM.dst["id"], AM.src["id"])
    return graph.aggregateMessages([F.avg(AM.msg).alias("value")], sendToDst=[older]).where(
        "value is not null"
    )
