"""Keyed programs: tables of rows by key, and blocks of calls that run on them."""
