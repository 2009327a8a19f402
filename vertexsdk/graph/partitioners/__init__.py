"""Which partition each vertex of a graph should be in, so that few edges lead elsewhere."""
