"""Replay a stream of changes, such as a git history, into a table, and compare the table with its source."""
