"""What processors cost and gain: commands, programs by number of processors, branches, starts."""
