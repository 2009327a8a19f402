"""For authors of backends, state elements and programs: conformance suites, and oracles.

The suites are `backends`, which needs pytest and hypothesis, and `state_elements`, which needs
pytest.
"""

__all__ = [
    "backends",
    "oracles",
    "state_elements",
]
