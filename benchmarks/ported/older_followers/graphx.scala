package ported

import org.apache.spark.graphx._

object OlderFollowers {
  def run(network: Graph[Int, Double]): VertexRDD[Double] = {
    val graph = network.mapVertices((id, _) => id.toDouble)
    val olderFollowers: VertexRDD[(Int, Double)] = graph.aggregateMessages[(Int, Double)](
      triplet => { // Map Function
        if (triplet.srcAttr > triplet.dstAttr) {
          // Send message to destination vertex containing counter and age
          triplet.sendToDst((1, triplet.srcAttr))
        }
      },
      // Add counter and age
      (a, b) => (a._1 + b._1, a._2 + b._2) // Reduce Function
    )
    // Divide total age by number of older followers to get average age of older followers
    olderFollowers.mapValues((id, value) =>
      value match { case (count, totalAge) => totalAge / count })
  }
}
