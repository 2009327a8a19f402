"""Changes that keep coming: files that grow, streaming DataFrames, and what they wait for."""

__all__ = ["intake", "read_ahead"]
