"""Which engine holds a changing graph for a program."""

from __future__ import annotations

from vertexsdk.engine.engine import Engine, Setting


def engine_for(setting: Setting) -> Engine:
    """Return the engine of a loop: one for declared messages, one for events.

    Raises:
        InputError: parameters or options that do not fit the graph; nothing was run.
    """
    if setting.program.algebra is None:
        from vertexsdk.engine.events._setup import events_engine

        return events_engine(
            setting.program, setting.graph, params=setting.params, backend=setting.backend,
            loop=setting.loop, max_iterations=setting.options.max_iterations,
            seed=setting.options.seed, resident=setting.options.exchange == "auto",
            nodes=setting.nodes,
        )  # fmt: skip
    from vertexsdk.engine.loop._factory import loop_engine

    return loop_engine(setting)
