"""The progress of main loops as OpenMetrics, over HTTP, for Prometheus and what reads the same.

A request reads `MainLoop.progress`, so it never waits for a loop, and nothing is counted twice.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from vertexsdk.errors import InputError, first_line
from vertexsdk.loops.streams.counters import ACTIVITIES

_log = logging.getLogger("vertexsdk")
_CLOSE_SECONDS = 0.1  # between looks at whether the server is to close
_REQUEST_SECONDS = 10.0
_METRICS = (  # kind, name, keys of the progress, text
    ("Counter", "changes", ("changes",), "Changes acknowledged, over the life of the loop."),
    ("Gauge", "changes_per_second", ("changes_per_second",), "Changes, over the last 10 seconds."),
    ("Gauge", "behind_changes", ("behind",), "Changes which the state does not reflect yet."),
    ("Gauge", "behind_seconds", ("behind_seconds",), "Since the first of these changes came."),
    ("Gauge", "vertices", ("vertices",), "Vertices of the graph."),
    ("Gauge", "edges", ("edges",), "Edges of the graph."),
    ("Gauge", "version", ("version",), "The loop's newest version."),
    ("Gauge", "branches", ("branches",), "Open branches."),
    ("Summary", "query_seconds", ("queries", "query_seconds"), "Queries answered."),
    ("Gauge", "last_query_seconds", ("last_query_seconds",), "The newest query."),
    ("Summary", "commit_seconds", ("commits", "commit_seconds"), "Versions committed."),
    ("Summary", "superstep_seconds", ("supersteps", "superstep_seconds"), "Supersteps."),
    ("Counter", "updates", ("updates",), "Vertices updated."),
    ("Counter", "messages", ("messages",), "Messages sent."),
    ("Counter", "sent_bytes", ("bytes",), "Bytes sent between partitions."),
    ("Counter", "restarts", ("restarts",), "Engines restored from the store."),
    ("Counter", "snapshots", ("snapshots",), "Snapshots committed."),
    ("Gauge", "snapshot_age_seconds", ("snapshot_age",), "Since the newest snapshot's cut."),
    ("Gauge", "snapshot_pause_seconds", ("snapshot_pause",), "The loop stood still for it."),
    ("Gauge", "snapshot_seconds", ("snapshot_seconds",), "Until it was stored."),
    ("Gauge", "snapshot_bytes", ("snapshot_bytes",), "Its size."),
)


class _Server(ThreadingTCPServer):
    """A thread per request; an `HTTPServer` would look up the host's name, which may take long."""

    allow_reuse_address = daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log why a request failed, such as a reader that has gone."""
        _log.info("a request for metrics failed", exc_info=True)


class MetricsServer:
    """Serves the progress of main loops at `/metrics`, until it is closed.

    Args:
        port: where to listen; 0 takes any free port.
        host: the address to listen on; "0.0.0.0" lets other machines read.

    Attributes:
        address: the URL of the metrics.

    Raises:
        InputError: `prometheus_client` is not installed, or the port cannot be used.
    """

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        try:
            self._families: Any = importlib.import_module("prometheus_client.core")
            text: Any = importlib.import_module("prometheus_client.openmetrics.exposition")
        except ImportError:
            raise InputError("metrics need a package: pip install 'vertexsdk[metrics]'") from None
        self._loops: list[Callable[[], dict[str, Any]]] = []
        metrics = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _REQUEST_SECONDS

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "metrics are at /metrics")
                    return
                body: bytes = text.generate_latest(metrics)
                self.send_response(200)
                self.send_header("Content-Type", text.CONTENT_TYPE_LATEST)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass  # a line per request would hide others

        try:
            self._server = _Server((host, port), Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or first_line(error)
            raise InputError(
                f"metrics cannot be served on {host}:{port}: {why}; give another port, or 0 for "
                "any free one"
            ) from None
        self.address = f"http://{host}:{self._server.server_address[1]}/metrics"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_CLOSE_SECONDS,), daemon=True,
            name="vertexsdk-metrics",
        )  # fmt: skip
        self._thread.start()

    def add(self, progress: Callable[[], dict[str, Any]]) -> None:
        """Show a loop from now on, by its `MainLoop.progress`."""
        self._loops.append(progress)

    def collect(self) -> Iterator[Any]:
        """Yield the metrics of all loops, for `prometheus_client`."""
        shown = [progress() for progress in self._loops]
        for kind, name, keys, text in _METRICS:
            family = getattr(self._families, f"{kind}MetricFamily")
            metric = family(f"vertexsdk_{name}", text, labels=["loop"])
            for progress in shown:
                values = [progress[key] for key in keys]
                if None not in values:  # else no query was answered yet
                    metric.add_metric([progress["loop"]], *values)
            yield metric
        states = self._families.StateSetMetricFamily(
            "vertexsdk_state", "What the loop does now.", labels=["loop"]
        )
        for progress in shown:
            now = progress["state"].split("+")
            every = ("idle", *ACTIVITIES, "closed")
            states.add_metric([progress["loop"]], {name: name in now for name in every})
        yield states

    def close(self) -> None:
        """End the server; may be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
