"""Decisions over metadata: which runs to compact, and how. Pure functions of their arguments."""
