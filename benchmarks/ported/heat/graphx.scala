package ported

import org.apache.spark.graphx._

object Heat {
  def run(graph: Graph[Int, Double], origin: VertexId): VertexRDD[Double] = {
    val cold = graph.mapVertices((id, _) => if (id == origin) 100.0 else 0.0)
    cold.pregel((0.0, 0), maxIterations = 10)(
      (id, heat, message) => {
        val (sum, count) = message
        if (id == origin || count == 0) heat else (heat + sum / count) / 2
      },
      triplet => Iterator((triplet.dstId, (triplet.srcAttr, 1))),
      (a, b) => (a._1 + b._1, a._2 + b._2)).vertices
  }
}
