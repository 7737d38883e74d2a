"""Conditions on rows: the typed tree, how SQL text becomes it, and what can be done with it."""
