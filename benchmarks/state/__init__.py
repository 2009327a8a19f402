"""What the suite `state` is made of: floors, processes that are cold, and the table."""
