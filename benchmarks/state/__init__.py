"""Floors of the suite ``state``, and columns as bytes."""
