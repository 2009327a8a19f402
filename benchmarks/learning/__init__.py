"""Learning from instances that arrive, beside systems that learn from all of them anew."""
