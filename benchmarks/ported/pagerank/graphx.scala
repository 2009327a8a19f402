package ported

import org.apache.spark.graphx._

object PageRank {
  def run(graph: Graph[Int, Double]): VertexRDD[Double] = {
    val ranks = graph
      .outerJoinVertices(graph.outDegrees)((id, _, degree) => degree.getOrElse(0))
      .mapTriplets(triplet => 1.0 / triplet.srcAttr)
      .mapVertices((id, _) => 0.15)
    ranks.pregel(0.0, maxIterations = 10)(
      (id, rank, sum) => 0.15 + 0.85 * sum,
      triplet => Iterator((triplet.dstId, triplet.srcAttr * triplet.attr)),
      (a, b) => a + b).vertices
  }
}
