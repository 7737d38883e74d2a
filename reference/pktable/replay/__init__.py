"""Replay a stream of changes, such as a git history, into a table, and check the table against its source."""
