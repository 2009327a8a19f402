"""What the suite ``triggers`` shares with the program that Pathway runs."""
