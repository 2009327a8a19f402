"""Built-in algorithms, one file each."""
