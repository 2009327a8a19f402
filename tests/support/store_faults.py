"""Calls to a store that fail: before they took effect, after it, in the middle, or much later.

While `StoreFaults.installed` is in effect, every store that this process opens is behind a wrapper,
which asks before each call what is to go wrong. The caller of a failed write cannot know whether it
happened, as with a server whose answer is lost.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from vertexsdk import backends
from vertexsdk.state import Backend, FullError, StateError, pins
from vertexsdk.state.contract import CanQuery, CanReadParts, NewManifest

__all__ = [
    "KINDS",
    "METHODS",
    "DrawnFaults",
    "DriverKilled",
    "NthFault",
    "StoreFault",
    "StoreFaults",
    "StoreFull",
    "public_methods",
]

READS = {
    "now", "check_rights", "get_segment", "list_segments", "get_manifest", "list_manifests",
    "get_head", "list_heads", "floor", "list_versions", "size", "open_segment", "shown",
}  # fmt: skip
FILLS = {"put_segment", "put_manifest", "swap_head", "show_rows"}  # writes that need room
DELETES = {"delete_unreferenced", "delete_manifests", "release_manifests", "forget_versions"}
WRITES = FILLS | DELETES | {"drop_head"}
METHODS = READS | WRITES | {"close"}  # `close` writes nothing, and never fails

KINDS: dict[str, set[str]] = {
    "before": READS | WRITES,  # it had no effect
    "after": WRITES,  # it had its effect
    "late": WRITES,  # it has its effect some calls later
    "torn": DELETES | {"put_segment", "swap_head"},  # it had a part of its effect
    "full": FILLS,
    "killed before": READS | WRITES,  # the driver dies, and calls nothing any more
    "killed after": WRITES,
    "killed torn": DELETES | {"put_segment", "swap_head"},
}
"""Which methods can fail in which way."""


class StoreFault(StateError):
    """An injected failure; whether the call had its effect is not said."""


class StoreFull(FullError):
    """An injected failure of a write, which had no effect."""


class DriverKilled(BaseException):
    """The driver's process has ended: nothing that it would do any more is done."""


def public_methods(ability: type) -> set[str]:
    """The methods of a class that callers of a backend use."""
    return {
        name
        for name, member in vars(ability).items()
        if callable(member) and not name.startswith("_")
    }


class StoreFaults:
    """Decides what fails; subclasses override `draw`.

    Attributes:
        calls: to the store, by method.
        fired: the faults so far, as "kind method".
        ahead: seconds by which the store's clock is.
        tell: is told of each fault.
    """

    def __init__(self, seed: int = 0) -> None:
        self.chance = Random(seed)
        self.calls: Counter[str] = Counter()
        self.fired: list[str] = []
        self.ahead = 0.0
        self.tell: Callable[[str], None] = lambda _: None
        self._waiting: list[tuple[int, Callable[[], Any]]] = []  # with the calls until then
        self._paused = 0
        self._dead: set[int] = set()
        self._driver = 0
        self._lock = threading.RLock()

    def delay(self) -> int:
        """After how many more calls something late takes effect."""
        return self.chance.randint(1, 12)

    def draw(self, method: str) -> str | None:
        """What goes wrong with a call: one of `KINDS` that applies to the method, or None."""
        raise NotImplementedError

    @contextmanager
    def installed(self) -> Iterator[StoreFaults]:
        """Have every store that is opened now fail as this says."""
        opened, hook = backends.open_backend, threading.excepthook

        def open_backend(*args: Any, **options: Any) -> Backend:
            return wrapped(opened(*args, **options), self)

        def excepthook(args: threading.ExceptHookArgs, /) -> None:
            if args.exc_type is not DriverKilled:  # else it is a thread of the driver
                hook(args)

        with (
            mock.patch.object(backends, "open_backend", open_backend),
            mock.patch.object(threading, "excepthook", excepthook),
        ):
            yield self

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Have nothing fail; what is late does not come."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    @contextmanager
    def driver(self, number: int) -> Iterator[None]:
        """Whose calls those of the stores are that are opened now."""
        before, self._driver = self._driver, number
        try:
            yield
        finally:
            self._driver = before

    def kill(self, driver: int, location: str = "") -> None:
        """End a driver: its stores do nothing any more, and its pins are gone."""
        self._dead.add(driver)
        with pins._lock:
            pins._pins.difference_update([p for p in pins._pins if p.location == location])

    def deliver(self) -> None:
        """Have everything happen that is late."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, effect in waiting:
            _do_late(effect)

    def call(self, backend: _Wrapper, method: str, args: Sequence[Any]) -> Any:
        """Call a method of a backend, or have it fail."""
        work, dead = getattr(backend.inner, method), backend.driver in self._dead
        if threading.current_thread().name == "vertexsdk-pins" and dead:
            raise StoreFault("the driver was killed")
        if method == "close" or self._paused or threading.current_thread().name == "vertexsdk-pins":
            return work(*args)
        if dead:
            raise DriverKilled
        with self._lock:
            self.calls[method] += 1
            self._waiting = [(left - 1, effect) for left, effect in self._waiting]
            due = [effect for left, effect in self._waiting if left <= 0]
            self._waiting = [some for some in self._waiting if some[0] > 0]
            kind = self.draw(method)
            if kind is not None:
                self.fired.append(f"{kind} {method}")
                self.tell(f"store: {kind} {method}")
        for effect in due:
            _do_late(effect)
        return work(*args) if kind is None else self._fail(backend, kind, method, args)

    def _fail(self, backend: _Wrapper, kind: str, method: str, args: Sequence[Any]) -> None:
        work, what = getattr(backend.inner, method), kind.removeprefix("killed ")
        if what == "after":
            work(*args)
        elif what == "torn":
            _do_partly(backend.inner, method, args)
        elif what == "late":
            effect = partial(work, *_owned(method, args))
            self._waiting.append((self.delay(), effect))
        if kind.startswith("killed"):
            self.kill(backend.driver, backend.location)
            raise DriverKilled
        if kind == "full":
            raise StoreFull(f"no room left for {method} (an injected fault)")
        raise StoreFault(f"lost the store in {method} (an injected fault)")


class NthFault(StoreFaults):
    """One fault of one kind, at the n-th call that can fail in this way.

    Args:
        kind: of `KINDS`.
        number: from 1; which of those calls.
        methods: of which calls; None for all.
    """

    DELAY = 8  # calls, by which a client has begun to do something else

    def __init__(self, kind: str, number: int, methods: set[str] | None = None) -> None:
        super().__init__(number)
        self.kind, self.number = kind, number
        self._methods = KINDS[kind] if methods is None else KINDS[kind] & methods
        self._seen = 0

    def delay(self) -> int:
        """See `StoreFaults`."""
        return self.DELAY

    def draw(self, method: str) -> str | None:
        """See `StoreFaults`."""
        self._seen += method in self._methods
        return self.kind if self._seen == self.number and method in self._methods else None


class DrawnFaults(StoreFaults):
    """Faults at random.

    Args:
        seed: what is drawn.
        rates: the probability of each kind for a call that can fail in this way.
    """

    def __init__(self, seed: int, rates: Mapping[str, float]) -> None:
        super().__init__(seed)
        self.rates = dict(rates)

    def draw(self, method: str) -> str | None:
        """See `StoreFaults`."""
        for kind, rate in self.rates.items():
            if method in KINDS[kind] and self.chance.random() < rate:
                return kind
        return None


@dataclass
class _Wrapper:
    """What all wrapped backends have; their methods are added by `wrapped`."""

    inner: Backend
    faults: StoreFaults
    driver: int

    @property
    def location(self) -> str:
        return self.inner.location

    @property
    def address(self) -> Any:
        return self.inner.address

    @property
    def durable(self) -> bool:
        return self.inner.durable

    @property
    def durability(self) -> str:
        return self.inner.durability

    @property
    def shared(self) -> bool:
        return self.inner.shared

    @property
    def advice(self) -> str:
        return self.inner.advice


def wrapped(inner: Backend, faults: StoreFaults) -> Backend:
    """A backend whose calls fail as `faults` says."""
    abilities = [some for some in (CanReadParts, CanQuery) if isinstance(inner, some)]
    names = set[str]().union(*map(public_methods, [Backend, *abilities]))
    methods = {name: _method(name) for name in names}
    cls: Any = type("FaultyBackend", (_Wrapper, Backend, *abilities), methods)
    return cls(inner, faults, faults._driver)


def _method(name: str) -> Callable[..., Any]:
    def call(self: _Wrapper, *args: Any) -> Any:
        result = self.faults.call(self, name, [*map(_listed, args)])
        if name == "now":
            return result + self.faults.ahead
        return iter(list(result)) if name in ("list_segments", "list_manifests") else result

    return call


def _listed(argument: Any) -> Any:
    """An iterator's values, as a call may be made later, or for some of them."""
    return list(argument) if isinstance(argument, Iterator) else argument


def _owned(method: str, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments with bytes of their own, which the caller cannot change."""
    if method == "put_segment":
        return args[0], [bytes(piece) for piece in args[1]]
    if method == "swap_head" and len(args) > 3 and args[3] is not None:
        segments = [(key, [bytes(p) for p in pieces]) for key, pieces in args[3].segments]
        return *args[:3], replace(args[3], segments=segments)
    return args


def _do_late(effect: Callable[[], Any]) -> None:
    """Have the effect of a call whose caller is not there any more."""
    with suppress(StateError):
        effect()


def _do_partly(backend: Backend, method: str, args: Sequence[Any]) -> None:
    """Have a part of the effect of a call."""
    work = getattr(backend, method)
    if method == "put_segment":  # a file that was cut short
        data = b"".join(map(bytes, args[1]))
        work(args[0], [data[: len(data) // 2]])
    elif method == "swap_head":  # segments that are stored before the rest
        new: NewManifest | None = args[3] if len(args) > 3 else None
        for key, pieces in () if new is None else new.segments:
            backend.put_segment(key, pieces)
    elif method == "release_manifests":
        work(dict(list(args[0].items())[: len(args[0]) // 2]))
    else:
        *loop, items = args
        some = list(items)
        work(*loop, some[: len(some) // 2])
