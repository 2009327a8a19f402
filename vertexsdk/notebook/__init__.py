"""Views of objects in a notebook: HTML, plots, and progress while a cell runs.

The other rooms give numbers and texts and get back what a notebook shows, so this room imports
none of them. Texts of users, such as ids, are escaped.
"""

__all__ = ["card", "live_display", "plots"]
