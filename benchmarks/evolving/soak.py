"""Many changes with queries among them, while the parent looks at memory."""

from __future__ import annotations

from benchmarks.evolving.context import Context, pieces
from benchmarks.timing import timed
from vertexsdk.engine.commands import QUIET

HEAP = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": "-Xms2g -XX:+AlwaysPreTouch"}
"""The JVM would take more of its heap for as long as it may, needed or not. So it is given all of
it at once; whether more and more of it is used, what its collections leave says."""


def soaking(program: str, context: Context) -> None:
    """``total`` changes, a query every ``every`` of them; the last answer is checked."""
    sizes = context.sizes
    with context.main(program, QUIET) as main:
        main.query()
        done = 0
        while done < sizes.total:
            left = min(sizes.every, sizes.total - done)
            done += left
            for batch in pieces(context.stream.take(left), sizes.batch):
                main.ingest(batch)
            seconds, result = timed(main.query)
            context.note("query", seconds)
            context.note("state bytes", context.state_bytes())
            context.note("heap bytes", context.heap_bytes())
            context.note("done", done)
        context.check(program, result)
