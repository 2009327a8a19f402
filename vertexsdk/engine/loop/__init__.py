"""A changing graph in one partition: changed in place, answered from where the last answer was."""
