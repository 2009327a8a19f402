"""The thread of a partition that stores its snapshots while the loop continues."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from vertexsdk.engine.snapshots import SnapshotPart, SnapshotRequest
from vertexsdk.errors import first_line
from vertexsdk.state import SegmentRef, Store, open_store
from vertexsdk.state.address import Address

# In `Arena.meta`: the token of the snapshot before and the `DeltaLayers`; None: a whole is due.
SNAPSHOT_LAYERS = "snapshot_layers"
WriteSnapshot = Callable[[Store], list[SegmentRef]]
Capture = Callable[[SnapshotRequest], tuple[bool, WriteSnapshot]]


class SnapshotWriter:
    """Writes the snapshots of one partition, one after the other.

    Args:
        address: address of the store.
    """

    def __init__(self, address: str | Address) -> None:
        self._address = address
        self._thread: ThreadPoolExecutor | None = None
        self._writing: list[Future[SnapshotPart]] = []

    def take(self, request: SnapshotRequest, capture: Capture) -> None:
        """Take a snapshot of the partition as it is, and store it.

        Args:
            request: the snapshot that is asked for.
            capture: the partition's method.
        """
        began, part = time.perf_counter(), SnapshotPart(request.number)
        part.state, write = capture(request)
        if request.waits:
            done: Future[SnapshotPart] = Future()
            done.set_result(self._store(part, write, began))
            self._writing.append(done)
        else:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "vertexsdk-snapshot")
            self._writing.append(self._thread.submit(self._store, part, write, began))
        part.pause = time.perf_counter() - began

    def finished(self) -> list[SnapshotPart]:
        """The parts that were stored, or failed, since the last call."""
        done = [future for future in self._writing if future.done()]
        self._writing = [future for future in self._writing if not future.done()]
        return [future.result() for future in done]

    def close(self) -> None:
        """Wait for what is being written, and drop the rest."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _store(self, part: SnapshotPart, write: WriteSnapshot, began: float) -> SnapshotPart:
        try:
            with open_store(self._address, create=False) as store:
                part.segments = write(store)
        except Exception as error:  # the loop continues, and says so
            part.failure = first_line(error)
        part.seconds = time.perf_counter() - began
        return part
