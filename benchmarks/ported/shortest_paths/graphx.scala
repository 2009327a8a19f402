package ported

import org.apache.spark.graphx._

object ShortestPaths {
  def run(graph: Graph[Int, Double], origin: VertexId): VertexRDD[Double] = {
    val initial = graph.mapVertices((id, _) => if (id == origin) 0.0 else Double.PositiveInfinity)
    val sssp = initial.pregel(Double.PositiveInfinity)(
      (id, dist, newDist) => math.min(dist, newDist), // Vertex Program
      triplet => { // Send Message
        if (triplet.srcAttr + triplet.attr < triplet.dstAttr) {
          Iterator((triplet.dstId, triplet.srcAttr + triplet.attr))
        } else {
          Iterator.empty
        }
      },
      (a, b) => math.min(a, b)) // Merge Message
    sssp.vertices
  }
}
