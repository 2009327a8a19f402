"""Where the time of a run goes, phase by phase."""
