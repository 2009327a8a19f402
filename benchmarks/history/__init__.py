"""Suite ``history``: a query after changes, beside a run from scratch, by program."""
