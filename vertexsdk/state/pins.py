"""Versions that are being read, kept from deletion until they are released: pins and leases.

Garbage collection in this process spares a pinned version at once. In other processes it does so by
a lease: a small record among the manifests, which says which manifests and segments, and until when
by the store's clock. After taking a lease on a version, check that the version still exists:
versions are forgotten before leases are listed, so at least one of the two sides sees the other.

A pin takes its lease at once, or where that would delay a reader which holds the version in
another way, by a thread once the pin is a second old. The thread renews leases while their pins are
held, so a version is let go of soon after its reader's process has died.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import astuple
from typing import Protocol

from vertexsdk.arrays.corruption import damaged
from vertexsdk.errors import VertexError
from vertexsdk.state.contract import Backend, SegmentKey, new_attempt
from vertexsdk.state.errors import FullError
from vertexsdk.state.manifests import Manifest

LEASE_SECONDS = 600.0
_LEASE = "lease."  # the beginning of its name; that of a version's manifest has no dot
_TICK = 1.0  # seconds between two looks of the thread
_AGAIN = 60.0  # seconds until a renewal that failed is tried again
_EXIT = 2.0  # seconds that the end of the process waits for leases to be released

_log = logging.getLogger("vertexsdk")
_pins: set[Pin] = set()
_lock = threading.Lock()  # of `_pins` and `_thread`
_thread: threading.Thread | None = None
_ending = threading.Event()


class Lease:
    """Keeps manifests and segments until it expires or is closed.

    It has no effect on what was deleted before the constructor returns.

    Args:
        backend: where they are.
        seconds: until it expires.
    """

    def __init__(
        self,
        backend: Backend,
        seconds: float,
        manifests: Iterable[str] = (),
        segments: Iterable[SegmentKey] = (),
    ) -> None:
        self.backend = backend
        self._name = _LEASE + new_attempt(backend.now())
        self._kept = {"manifests": list(manifests), "segments": list(map(astuple, segments))}
        self.renew(seconds)

    def renew(self, seconds: float) -> None:
        """Make it expire `seconds` from now."""
        record = {"until": self.backend.now() + seconds, **self._kept}
        self.backend.put_manifest(self._name, json.dumps(record).encode())

    def close(self) -> None:
        """End it."""
        self.backend.delete_manifests([self._name])


def is_record(name: str) -> bool:
    """Return whether this names a lease or another record, not a version's manifest."""
    return "." in name


def active_leases(backend: Backend) -> tuple[set[str], set[SegmentKey]]:
    """The manifests and segments under a lease now; expired leases are deleted."""
    manifests: set[str] = set()
    segments: set[SegmentKey] = set()
    for name in list(backend.list_manifests(_LEASE)):
        data = backend.get_manifest(name)
        if data is None:
            continue
        with damaged(f"{name} in {backend.location}"):
            record = json.loads(data)
            if record["until"] < backend.now():
                with suppress(FullError):
                    backend.delete_manifests([name])
                continue
            segments.update(SegmentKey(*key) for key in record["segments"])
            manifests.update(record["manifests"])
    return manifests, segments


class SweepingStore(Protocol):
    """The part of a `Store` that a pin uses."""

    @property
    def backend(self) -> Backend:
        """The storage of the versions."""

    def sweep(self, dropped: Iterable[str]) -> None:
        """Delete dropped versions, and what only they refer to."""

    def close(self) -> None:
        """Close the backend."""


class Pin:
    """Keeps one version of a loop readable.

    Args:
        store: where it is; not kept.
        reopen: opens the same store, for the thread.
        loop: the version's loop.
        manifest: the version.
        seconds: after which the version is no longer kept, should this process die; with 0 there
            is never a lease.
    """

    def __init__(
        self,
        store: SweepingStore,
        reopen: Callable[[], SweepingStore],
        loop: str,
        manifest: Manifest,
        seconds: float = LEASE_SECONDS,
    ) -> None:
        self.loop, self.manifest, self.location = loop, manifest, store.backend.location
        self._reopen, self._seconds, self._process = reopen, seconds, os.getpid()
        self._lease: Lease | None = None
        self._due = time.monotonic() + (_TICK if seconds else float("inf"))  # of the lease
        self._busy = threading.Lock()
        self.dropped = False  # by this process, which has spared it
        self.abandoned = False
        _hold(self)

    def take_lease(self, store: SweepingStore) -> None:
        """Have other processes spare the version too.

        Raises:
            StateError: this user may not write to the store, or it is full.
        """
        with self._busy:
            self._extend_lease(store)

    def _extend_lease(self, store: SweepingStore) -> None:
        if self._lease is None:
            self._lease = Lease(store.backend, self._seconds, [self.manifest.name])
        else:
            self._lease.backend = store.backend
            self._lease.renew(self._seconds)
        self._due = time.monotonic() + self._seconds / 3

    def release(self, store: SweepingStore) -> None:
        """Let go of the version, and delete it if it was dropped meanwhile."""
        if self._process != os.getpid():  # a fork: the parent reads it still
            return
        with self._busy:
            if _forget(self):
                with suppress(VertexError, OSError):  # a lease expires by itself
                    self._let_go(store)

    def abandon(self) -> None:
        """Have the thread release the version; of a reader that was garbage-collected."""
        self.abandoned = True  # and nothing else: this may run anywhere

    def _let_go(self, store: SweepingStore) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.backend = store.backend
            lease.close()
        if lease is not None or self.dropped:
            retained = store.backend.floor(self.loop, self.manifest.iteration)
            if retained is None or retained[1] != self.manifest.name:
                store.sweep([self.manifest.name])

    def tend(self, *, ending: bool) -> None:
        """Take or renew the lease if it is due, or release an abandoned pin; the thread does."""
        with self._busy:
            if self.abandoned or ending:
                if _forget(self) and (self._lease is not None or self.dropped):
                    with closing(self._reopen()) as store:
                        self._let_go(store)
            elif self._due <= time.monotonic() and self in _pins:
                # A reader without rights has no lease; a renewal is tried again.
                self._due = time.monotonic() + (_AGAIN if self._lease else float("inf"))
                with closing(self._reopen()) as store:
                    self._extend_lease(store)


def pinned(location: str) -> set[str]:
    """The manifests that this process has pinned in the store at `location`."""
    with _lock:
        return {p.manifest.name for p in _pins if p.location == location and not p.abandoned}


def spare(location: str, dropped: Iterable[str]) -> set[str]:
    """Return which of these manifests are pinned; they are deleted when they are released."""
    names = set(dropped) & pinned(location)
    with _lock:
        for pin in _pins:
            if pin.location == location and pin.manifest.name in names:
                pin.dropped = True
    return names


def _hold(pin: Pin) -> None:
    global _thread
    with _lock:
        _pins.add(pin)
        if _thread is None:
            _thread = threading.Thread(target=_tend_all, name="vertexsdk-pins", daemon=True)
            _thread.start()


def _forget(pin: Pin) -> bool:
    """Forget a pin; return whether it was held until now."""
    with _lock:
        held = pin in _pins
        _pins.discard(pin)
        return held


def _tend_all() -> None:
    global _thread
    while True:
        ending = _ending.wait(_TICK)
        with _lock:
            pins = list(_pins)
            if not pins:
                _thread = None
                return
        for pin in pins:
            try:
                pin.tend(ending=ending)
            except Exception as error:  # of a store that is gone, among others
                _log.debug("version %s of %s: %s", pin.manifest.name, pin.loop, error)


def _end() -> None:
    _ending.set()
    thread = _thread
    if thread is not None:
        thread.join(_EXIT)


def _after_fork() -> None:
    global _thread, _lock, _ending
    _pins.clear()
    _thread, _lock, _ending = None, threading.Lock(), threading.Event()


atexit.register(_end)
os.register_at_fork(after_in_child=_after_fork)
