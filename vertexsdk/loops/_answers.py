"""The newest answers of a main loop, which stay in the store as `LOOP-1`, `LOOP-2`, ...

An older answer is deleted when a new one is added, unless its `Result` is open in this process.
A loop of such a name that a run, or a main loop of another program, has written is never deleted.
"""

from __future__ import annotations

import contextlib
import weakref
from concurrent.futures import Future

from vertexsdk.engine.loop_names import refuse_to_replace
from vertexsdk.errors import StateError
from vertexsdk.loops._history import LoopHistory
from vertexsdk.loops._ledger import Ledger
from vertexsdk.loops.result import Result
from vertexsdk.state import Manifest

KEEP = 100


class Answers:
    """Adds answers of a loop to the store, and deletes the oldest; used by one thread.

    Args:
        keep: number of answers that stay, at least 1; None keeps all.
    """

    def __init__(self, history: LoopHistory, keep: int | None) -> None:
        self._history, self._keep = history, keep
        self._names: dict[str, weakref.ref[Result] | None] | None = None  # the oldest first

    def make_room_for(self, name: str) -> None:
        """Delete what an earlier loop left under the name of an answer, before that is forked.

        Raises:
            InputError: it is a main loop with acknowledged changes.
        """
        store = self._history.store
        if self._keep is not None:  # so answers that are being computed are not among the earlier
            self._listed().pop(name, None)
        newest = store.head(name)
        if newest is None:
            return
        ledger = Ledger.of(newest)
        if newest.loop == name and ledger is not None and ledger.branch_of is None:
            refuse_to_replace(newest, name, store.backend.location)
        store.delete(name)

    def add(self, name: str, result: weakref.ref[Result], version: Future[Manifest] | None) -> None:
        """Add an answer, and delete the oldest beyond the limit.

        Args:
            version: of the loop, which becomes the answer; None if the answer is in the store.
        """
        if version is not None:
            iteration = version.result().iteration  # or it could not be stored, and this raises
            self.make_room_for(name)
            self._history.store.fork(self._history.loop, name, iteration)
            self._history.store.show(self._history.loop)
        if self._keep is None:
            return
        with contextlib.suppress(StateError):  # the next query tries again
            names = self._listed()
            names.pop(name, None)
            names[name] = result
            for old in list(names)[: -self._keep]:
                reader = names[old]
                opened = reader() if reader is not None else None
                if opened is None or opened.closed:
                    self._delete(old)
                    del names[old]

    def _listed(self) -> dict[str, weakref.ref[Result] | None]:
        if self._names is None:
            self._names = dict.fromkeys(self._earlier())
        return self._names

    def _earlier(self) -> list[str]:
        """The answers in the store: of a loop that had this name before, then of this one."""
        loop, last = self._history.loop, self._history.ledger.queries
        suffixes = [
            name.removeprefix(f"{loop}-")
            for name in self._history.store.backend.list_heads()
            if name.startswith(f"{loop}-")
        ]
        numbers = [int(text) for text in suffixes if text.isascii() and text.isdecimal()]
        return [f"{loop}-{k}" for k in sorted(numbers, key=lambda k: (k <= last, k))]

    def _delete(self, name: str) -> None:
        store = self._history.store
        manifest = store.head(name)
        if manifest is None or Ledger.of(manifest) is None:
            return
        if manifest.program == self._history.config.program.name:
            store.delete(name)
