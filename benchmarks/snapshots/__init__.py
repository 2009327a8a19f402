"""What snapshots of main loops cost, and what they buy when a processor or a process is lost."""
