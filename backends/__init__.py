"""Storage backends of the versioned state."""
