package benchmarks

import org.apache.spark.SparkContext
import org.apache.spark.api.java.JavaSparkContext
import org.apache.spark.graphx.{Edge, Graph, VertexId}
import org.apache.spark.storage.StorageLevel

/** Shortest paths along edge values, as GraphX's programming guide writes them with Pregel. */
object WeightedPaths {

  /** Lines `source target value`; edges as GraphLoader.edgeListFile keeps them. */
  def load(context: JavaSparkContext, path: String, partitions: Int): Graph[Int, Double] = {
    val edges = context.sc.textFile(path, partitions).map { line =>
      val first = line.indexOf(' ')
      val second = line.indexOf(' ', first + 1)
      Edge(
        line.substring(0, first).toLong,
        line.substring(first + 1, second).toLong,
        line.substring(second + 1).toDouble)
    }
    val graph = Graph.fromEdges(
      edges, 1, StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_ONLY)
    graph.edges.count()
    graph.vertices.count()
    graph
  }

  def run(graph: Graph[Int, Double], origin: Long): Graph[Double, Double] = {
    val initial = graph.mapVertices((id, _) => if (id == origin) 0.0 else Double.PositiveInfinity)
    initial.pregel(Double.PositiveInfinity)(
      (_, length, other) => math.min(length, other),
      triplet => {
        val length = triplet.srcAttr + triplet.attr
        if (length < triplet.dstAttr) Iterator((triplet.dstId, length)) else Iterator.empty
      },
      (a, b) => math.min(a, b))
  }
}
