package ported

import org.apache.spark.api.java.JavaSparkContext
import org.apache.spark.graphx.{Edge, Graph}
import org.apache.spark.storage.StorageLevel

/** Lines `source target value`; edges kept as GraphLoader.edgeListFile keeps them. */
object Load {
  def text(context: JavaSparkContext, path: String, partitions: Int): Graph[Int, Double] = {
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
}
