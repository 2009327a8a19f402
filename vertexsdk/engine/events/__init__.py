"""Programs without a message algebra: every delta is gathered by itself, in Python."""
