package ported

import org.apache.spark.graphx._

object TwoHops {
  def run(graph: Graph[Int, Double]): VertexRDD[Long] = {
    graph
      .outerJoinVertices(graph.inDegrees)((id, _, followers) => followers.getOrElse(0).toLong)
      .aggregateMessages[Long](triplet => triplet.sendToDst(triplet.srcAttr), (a, b) => a + b)
  }
}
