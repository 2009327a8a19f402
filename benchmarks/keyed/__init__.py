"""What calls of a stateful class cost, beside a dict and a server of keys and values."""
