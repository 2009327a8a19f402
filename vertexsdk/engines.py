"""Which engine holds a changing graph for a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vertexsdk.engine import Engine
from vertexsdk.graph import Graph
from vertexsdk.program import Program
from vertexsdk.state import SegmentRef

__all__ = ["FACTORIES", "Setting", "engine_for"]


@dataclass(frozen=True)
class Setting:
    """What an engine is made for.

    Attributes:
        program: of any number of classes.
        graph: what it begins with.
        params: values of the program's parameters, as the user gave them.
        backend: URL of the store that segments are written to.
        loop: the name that segments are written under.
        options: as those of `run`: `tolerance`, `compiled`, `threads`, ...
        nodes: of a checkpoint, for an events program to stand there.
    """

    program: Program
    graph: Graph
    params: Mapping[str, Any]
    backend: str
    loop: str
    options: Mapping[str, Any] = field(default_factory=dict)
    nodes: Sequence[SegmentRef] = ()


Factory = Callable[[Setting], Engine | None]


def _events(setting: Setting) -> Engine | None:
    if setting.program.algebra is not None:
        return None
    from vertexsdk.event_setup import events_engine

    return events_engine(
        setting.program,
        setting.graph,
        params=setting.params,
        backend=setting.backend,
        loop=setting.loop,
        max_iterations=setting.options.get("max_iterations"),
        nodes=setting.nodes,
    )


def _rebuild(setting: Setting) -> Engine:
    from vertexsdk.rebuild import RebuildEngine

    return RebuildEngine(setting)


def _live(setting: Setting) -> Engine | None:
    from vertexsdk.live.factory import live_engine

    return live_engine(setting)


# In order: each says None to what is not for it, and the last takes everything.
FACTORIES: list[Factory] = [_events, _live, _rebuild]


def engine_for(setting: Setting) -> Engine:
    """Return the first engine that takes the setting.

    Raises:
        InputError: parameters or options that do not fit the graph; nothing was run.
    """
    return next(engine for make in FACTORIES if (engine := make(setting)) is not None)
