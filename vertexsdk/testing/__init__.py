"""For authors of backends and programs: the conformance suite (`backends`), and oracles.

Needs pytest and hypothesis.
"""

__all__ = ["backends", "oracles"]
