"""The programs of the suite ``examples``: programs of others, and the same programs here."""
