"""Which engine holds a changing graph for a program."""

from __future__ import annotations

from collections.abc import Callable

from vertexsdk.engine.engine import Engine, Setting

__all__ = ["FACTORIES", "engine_for"]


Factory = Callable[[Setting], Engine | None]


def _events(setting: Setting) -> Engine | None:
    if setting.program.algebra is not None:
        return None
    from vertexsdk.engine.events._setup import events_engine

    return events_engine(
        setting.program,
        setting.graph,
        params=setting.params,
        backend=setting.backend,
        loop=setting.loop,
        max_iterations=setting.options.max_iterations,
        seed=setting.options.seed,
        resident=setting.options.exchange == "auto",
        nodes=setting.nodes,
    )


def _incremental(setting: Setting) -> Engine | None:
    from vertexsdk.engine.incremental._factory import incremental_engine

    return incremental_engine(setting)


# In order: each says None to what is not for it, and the last takes everything.
FACTORIES: list[Factory] = [_events, _incremental]


def engine_for(setting: Setting) -> Engine:
    """Return the first engine that takes the setting.

    Raises:
        InputError: parameters or options that do not fit the graph; nothing was run.
    """
    return next(engine for make in FACTORIES if (engine := make(setting)) is not None)
