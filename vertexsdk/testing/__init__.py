"""Shipped tests: what a backend of one's own has to pass (`vertexsdk.testing.backends`).

Needs pytest and hypothesis.
"""
