"""Windows of event time: edges that expire, answers as of a moment, an answer per step of time."""

__all__ = ["as_of", "durations", "edge_times", "rolling", "window", "windowed_loop"]
