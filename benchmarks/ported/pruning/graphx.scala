package ported

import org.apache.spark.graphx._

object Pruning {
  val k = 10

  def counted(graph: Graph[Int, Double]): Graph[Int, Double] = graph
    .outerJoinVertices(graph.degrees)((_, _, degree) => degree.getOrElse(0))
    .cache()

  def run(graph: Graph[Int, Double]): VertexRDD[Int] = {
    var core = counted(graph)
    var before = 0L
    var now = core.vertices.count()
    while (now != before) {
      val last = core
      core = counted(last.subgraph(vpred = (_, degree) => degree >= k))
      before = now
      now = core.vertices.count()
      last.unpersist(blocking = false)
    }
    core.vertices.mapValues(_ => 1)
  }
}
