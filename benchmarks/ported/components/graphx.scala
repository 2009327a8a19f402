package ported

import org.apache.spark.graphx._

object Components {
  def run(graph: Graph[Int, Double]): VertexRDD[VertexId] = {
    val labelled = graph.mapVertices((id, _) => id)
    labelled.pregel(Long.MaxValue)(
      (id, label, other) => math.min(label, other),
      triplet => {
        if (triplet.srcAttr < triplet.dstAttr) {
          Iterator((triplet.dstId, triplet.srcAttr))
        } else if (triplet.srcAttr > triplet.dstAttr) {
          Iterator((triplet.srcId, triplet.dstAttr))
        } else {
          Iterator.empty
        }
      },
      (a, b) => math.min(a, b)).vertices
  }
}
