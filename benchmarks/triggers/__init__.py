"""Triggers on tables that change, beside batch jobs on all of them: the Domino paper, section 6."""
